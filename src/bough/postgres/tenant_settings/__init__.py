"""Which settings of Postgres a tenant may give an endpoint, and what they may say."""

from bough.postgres.tenant_settings.validation import SETTINGS_KEY, check_settings, filter_accepted

__all__ = ["SETTINGS_KEY", "check_settings", "filter_accepted"]
