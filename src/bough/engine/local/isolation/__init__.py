"""Who computes run as, what they may have, and what they can never get."""
