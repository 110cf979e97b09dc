"""The home of the engine's tests, for tests that need one and no platform."""

from engine.conftest import home, settings

__all__ = ["home", "settings"]
