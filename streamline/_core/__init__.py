"""L0: values. Imports nothing of ours but errors."""
