"""Fixtures of the engine tests, for security tests that need an engine home without a platform."""

from engine.conftest import home, settings, shared_compute_spec, tenant_compute

__all__ = ["home", "settings", "shared_compute_spec", "tenant_compute"]
