"""Decisions. Check rules, write the wish, enqueue the work; never touch the machine."""
