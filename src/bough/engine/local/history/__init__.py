"""Point-in-time recovery: archived WAL, bases, retention and recovery."""
