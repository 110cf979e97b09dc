"""What things are and which moves are legal. Pure: no I/O, no clock, no async."""
