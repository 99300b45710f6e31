"""What streamline costs, beside hand-written loops of the same run: `make bench`, `python -m benchmarks --help`."""
