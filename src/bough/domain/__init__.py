"""Domain objects and their legal state transitions. Pure: no I/O, no clock, no async."""
