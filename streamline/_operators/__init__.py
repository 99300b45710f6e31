"""L1: the operators, one a file. They hold logic and declared state, never backends, channels or tasks."""
