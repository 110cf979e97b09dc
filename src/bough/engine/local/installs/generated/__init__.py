"""Locks of Debian packages, written by `bough.engine.local.installs.lock_update`."""
