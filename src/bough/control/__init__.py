"""Decisions: check rules, write rows, enqueue operations. Never acts on the machine."""
