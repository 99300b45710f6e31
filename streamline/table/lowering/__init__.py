"""Physical nodes as nodes of the stream graph, by family."""
