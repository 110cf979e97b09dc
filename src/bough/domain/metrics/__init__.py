"""Metrics over time: what is measured, how values are combined, and which are kept for how long. Pure."""
