"""Measurements of what Bough promises: one module per promise, each with its baseline.

`python -m bench` runs all of them, `python -m bench restart` one of them.
"""
