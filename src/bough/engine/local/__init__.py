"""This machine: volumes are folders, computes are `postgres` processes of their own."""
