"""Restores, snapshots and snapshot schedules."""
