"""Programs to read and run; each is run by a test."""
