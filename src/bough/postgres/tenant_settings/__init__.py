"""The Postgres settings that a tenant may set for an endpoint, and their allowed values."""

from bough.postgres.tenant_settings.validation import SETTINGS_KEY, check_settings, filter_accepted

__all__ = ["SETTINGS_KEY", "check_settings", "filter_accepted"]
