"""`bough doctor`: checks of this machine and of the running platform."""
