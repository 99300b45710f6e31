"""The DataStream API: programs as streams and functions. Its names are imported from `streamline`."""
