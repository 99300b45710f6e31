"""Aggregation: operators that hold groups and windows, and the accumulators that need more than a line of code."""
