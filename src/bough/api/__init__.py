"""HTTP, version 2."""
