"""The storage image: a file with a file system in which a home keeps its volumes."""
