"""Branches with their roles and databases: creation, inheritance, deletion, recovery."""
