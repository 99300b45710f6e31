"""Typed scalar expressions: nodes, the functions they call, and the Python source they become."""
