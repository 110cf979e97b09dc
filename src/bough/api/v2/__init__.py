"""The management API, one resource a file: bodies, views, handlers."""
