"""Recurring work without input. Each task can run at any time and again."""
