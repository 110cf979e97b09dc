"""Transaction pooling: many clients share a few server connections without seeing each other's state."""
