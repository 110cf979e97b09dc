"""Check what a tenant wants of Postgres, and say what is wrong and what is possible."""

import difflib
from collections.abc import Mapping

from bough.errors import Invalid
from bough.postgres.tenant_settings.reserved import RESERVED_SETTINGS
from bough.postgres.tenant_settings.table import ALL_SETTINGS, Setting, available_settings

SETTINGS_KEY = "pg_settings"  # where they are in the settings of an endpoint
_LONGEST = 2000  # characters of a value
_SHOWN = 63


def check_settings(settings: Mapping[str, str], major: int) -> None:
    """A setting that cannot be had, or not so, is refused with what can."""
    known = available_settings(major)
    seen: set[str] = set()
    for given, text in settings.items():
        name = given.lower()
        setting = known.get(name)
        if setting is None:
            raise Invalid(f"{SETTINGS_KEY} has {given[:_SHOWN]!r}, which {_describe_rejection(name, major, known)}")
        if name in seen:
            raise Invalid(f"{SETTINGS_KEY} has {name!r} more than once: give it once, in small letters.")
        seen.add(name)
        if not _is_possible(setting, text):
            raise Invalid(f"{SETTINGS_KEY}.{name} is {text[:_SHOWN]!r}: use {setting.value_type.hint}.")


def filter_accepted(settings: Mapping[str, str] | None, major: int) -> dict[str, str]:
    """What may come into force, by names in small letters.

    One that was stored before it was checked, or that another version of Postgres knew, is passed over: nothing
    of the platform's can be among them, and no compute is kept from starting.
    """
    known = available_settings(major)
    lowered = {name.lower(): text for name, text in (settings or {}).items()}
    return {name: text for name, text in lowered.items() if name in known and _is_possible(known[name], text)}


def _is_possible(setting: Setting, text: str) -> bool:
    return len(text) <= _LONGEST and text.isprintable() and setting.value_type.accepts(text)


def _describe_rejection(name: str, major: int, known: Mapping[str, Setting]) -> str:
    others = [setting for setting in ALL_SETTINGS if setting.name == name]
    if others:
        return f"Postgres {major} does not have; it came with {others[0].since}."
    if name in RESERVED_SETTINGS:
        return f"{RESERVED_SETTINGS[name]}."
    if "." in name:
        return "is of an extension: use ALTER ROLE … SET or ALTER DATABASE … SET."
    near = difflib.get_close_matches(name, [*known, *RESERVED_SETTINGS], n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "The page on computes lists those that can be set."
    return f"is no setting of Postgres {major}. {hint}"
