"""Validates the Postgres settings of a tenant; errors name the allowed values."""

import difflib
from collections.abc import Mapping

from bough.errors import Invalid
from bough.postgres.tenant_settings.extension_settings import EXTENSION_SETTINGS, available_extension_settings
from bough.postgres.tenant_settings.reserved import RESERVED_SETTINGS
from bough.postgres.tenant_settings.table import ALL_SETTINGS, Setting, available_settings

SETTINGS_KEY = "pg_settings"  # in the settings of an endpoint
_MAX_LENGTH = 2000  # characters of a value
_MAX_SHOWN = 63


def check_settings(settings: Mapping[str, str], major: int) -> None:
    """Raise Invalid for a setting that cannot be set or has a value that is not allowed."""
    known = available_settings(major) | available_extension_settings(major)
    seen: set[str] = set()
    for requested_name, text in settings.items():
        name = requested_name.lower()
        setting = known.get(name)
        if setting is None:
            reason = _describe_rejection(name, major, known)
            raise Invalid(f"{SETTINGS_KEY} contains {requested_name[:_MAX_SHOWN]!r}, which {reason}")
        if name in seen:
            raise Invalid(f"{SETTINGS_KEY} contains {name!r} more than once: write it once, in lower case.")
        seen.add(name)
        if not _is_allowed(setting, text):
            raise Invalid(f"{SETTINGS_KEY}.{name} is {text[:_MAX_SHOWN]!r}: use {setting.value_type.hint}.")


def filter_accepted(settings: Mapping[str, str] | None, major: int) -> dict[str, str]:
    """Return the settings that can take effect, with names in lower case.

    Omits settings that were stored before they were validated, or that only another version of Postgres has. So none of
    them can override the platform, and every compute can start.
    """
    known = available_settings(major) | available_extension_settings(major)
    lowered = {name.lower(): text for name, text in (settings or {}).items()}
    return {name: text for name, text in lowered.items() if name in known and _is_allowed(known[name], text)}


def _is_allowed(setting: Setting, text: str) -> bool:
    return len(text) <= _MAX_LENGTH and text.isprintable() and setting.value_type.accepts(text)


def _describe_rejection(name: str, major: int, known: Mapping[str, Setting]) -> str:
    others = [setting for setting in (*ALL_SETTINGS, *EXTENSION_SETTINGS.values()) if setting.name == name]
    if others:
        return f"Postgres {major} does not have; it was added in Postgres {others[0].since}."
    if name in RESERVED_SETTINGS:
        return f"{RESERVED_SETTINGS[name]}."
    if "." in name:
        return "belongs to an extension: use ALTER ROLE … SET or ALTER DATABASE … SET."
    near = difflib.get_close_matches(name, [*known, *RESERVED_SETTINGS], n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "docs/computes.md lists the available settings."
    return f"is not a setting of Postgres {major}. {hint}"
