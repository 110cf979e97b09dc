"""Keeps the control process and the gateway workers running."""
