"""Decisions for the gateway: access, wakes, activity reports, limits and notifications."""
