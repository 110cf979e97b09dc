"""The storage image: a file with a file system of its own, in which a home keeps its volumes."""
