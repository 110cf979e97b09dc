"""Pages for people: rendered here, with no script."""
