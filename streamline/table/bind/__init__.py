"""Names, types and functions are resolved here and never again: query trees become logical plans."""
