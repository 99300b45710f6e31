"""L3: runs a graph: tasks, sources, checkpoints, restarts. Knows operators only as abc.Operator."""
