"""Which settings of Postgres a tenant may give an endpoint, and what they may say."""

from bough.postgres.tenant_settings.checking import SETTINGS, accepted, check

__all__ = ["SETTINGS", "accepted", "check"]
