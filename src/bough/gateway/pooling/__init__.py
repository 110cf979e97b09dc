"""Transaction pooling: many clients share few server connections, and see nothing of one another."""
