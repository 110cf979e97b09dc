"""How much of what clients do in a database is audited: the setting `audit_log_level` of a project."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from bough.errors import Invalid

SETTINGS_KEY = "audit_log_level"
_FIRST_MAJOR = 15  # the first that can write its log as JSON, in which a tenant cannot forge entries


class AuditLevel(StrEnum):
    BASE = "base"  # statements that change definitions, roles or privileges
    EXTENDED = "extended"  # all statements, without parameters
    FULL = "full"  # all statements with parameters, and connections


def check_settings(settings: Mapping[str, Any], pg_version: int) -> None:
    """Raise Invalid for a level that this version of Postgres cannot provide."""
    level = settings.get(SETTINGS_KEY)
    if level is not None and pg_version < _FIRST_MAJOR:
        raise Invalid(
            f"{SETTINGS_KEY} is {level!r}, which requires Postgres {_FIRST_MAJOR} or later; "
            f"this project has Postgres {pg_version}. Omit it."
        )


def read_level(settings: Mapping[str, Any], pg_version: int) -> AuditLevel | None:
    """Return the level; None also for one that was stored before it was checked and cannot be provided."""
    level = settings.get(SETTINGS_KEY)
    return None if level is None or pg_version < _FIRST_MAJOR else AuditLevel(level)
