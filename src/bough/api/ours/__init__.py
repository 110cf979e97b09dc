"""Paths of our own, under /api/v2/bough/: what the published API has no shape for."""
