"""Windows: what they are, how records get into them, when they fire."""
