"""Hands. Knows specs and ids; knows no rows, users or HTTP."""
