"""Measurements of what Bough promises: one file a promise, each beside its baseline.

`python -m bench` runs them all, `python -m bench restart` one of them.
"""
