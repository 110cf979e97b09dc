"""The `bough` command line."""
