"""The engine of one machine: a volume is a folder, a compute is a `postgres` process."""
