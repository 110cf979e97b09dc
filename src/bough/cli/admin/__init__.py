"""Commands for the person who runs the platform: the only ones that may import `bough.app`."""
