"""Server-rendered HTML pages without scripts."""
