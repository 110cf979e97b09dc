"""Decisions: check the rules, write the rows and enqueue operations. Never acts on the machine."""
