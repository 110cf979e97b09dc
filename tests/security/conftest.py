"""Fixtures of the engine tests, for security tests that need an engine home without a platform."""

from engine.conftest import home, settings

__all__ = ["home", "settings"]
