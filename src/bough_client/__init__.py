"""Bough for Python programs: what they ask of a platform, over HTTP. Knows nothing of the server's own code."""
