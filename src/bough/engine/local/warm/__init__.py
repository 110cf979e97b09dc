"""The warm pool: running computes that wait for a project."""
