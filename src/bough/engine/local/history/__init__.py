"""What one can go back to: archived WAL, bases, and recovery to a point."""
