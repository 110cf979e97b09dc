"""The settings of extensions that a tenant may set for an endpoint, because a session cannot set them.

Only those of libraries that can be preloaded. Without its library, a setting has no effect.
"""

import re

from bough.postgres.tenant_settings import time_zones
from bough.postgres.tenant_settings.table import OLDEST_MAJOR, Setting
from bough.postgres.tenant_settings.value_types import (
    BoolType,
    EnumType,
    IntegerType,
    ListedType,
    PatternType,
    RealType,
    Unit,
)

_INT_MAX = 2**31 - 1
_LEVELS = ("debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "log")
_LEVEL = re.compile("|".join(_LEVELS), re.IGNORECASE)
_DATABASE = re.compile(r"[^\x00-\x1f\x7f]{1,63}")
_ROLE = re.compile(r"[^\x00-\x1f\x7f,]{0,63}")
_AUDIT_CLASS = "(all|ddl|function|misc|misc_set|none|read|role|write)"
_AUDIT_CLASSES = re.compile(rf"-?{_AUDIT_CLASS}( *, *-?{_AUDIT_CLASS})*", re.IGNORECASE)


def _booleans(prefix: str, names: str, *, needs_restart: bool = False) -> list[Setting]:
    return [
        Setting(name=f"{prefix}.{name}", value_type=BoolType(), needs_restart=needs_restart) for name in names.split()
    ]


def _integer(
    name: str,
    minimum: int,
    maximum: int,
    unit: Unit = "",
    *,
    allowed_range: tuple[float, float] | None = None,
    needs_restart: bool = False,
    since: int = OLDEST_MAJOR,
) -> Setting:
    value_type = IntegerType(minimum=minimum, maximum=maximum, unit=unit, allowed_range=allowed_range)
    return Setting(name=name, value_type=value_type, needs_restart=needs_restart, since=since)


AUTO_EXPLAIN = (
    *_booleans(
        "auto_explain",
        "log_analyze log_buffers log_nested_statements log_settings log_timing log_triggers log_verbose log_wal",
    ),
    _integer("auto_explain.log_min_duration", -1, _INT_MAX, "ms"),
    _integer("auto_explain.log_parameter_max_length", -1, _INT_MAX, "B", since=16),
    Setting(name="auto_explain.log_format", value_type=EnumType(("text", "xml", "json", "yaml"))),
    Setting(name="auto_explain.log_level", value_type=EnumType(_LEVELS)),
    Setting(name="auto_explain.sample_rate", value_type=RealType(minimum=0, maximum=1)),
)

PG_CRON = (
    *_booleans("cron", "launch_active_jobs"),
    *_booleans("cron", "log_run log_statement", needs_restart=True),
    Setting(
        name="cron.database_name",
        value_type=PatternType(_DATABASE, "the name of the database with the extension"),
        needs_restart=True,
    ),
    _integer("cron.max_running_jobs", 0, 100, allowed_range=(0, 32), needs_restart=True),
    Setting(
        name="cron.timezone",
        value_type=ListedType(
            frozenset(name.lower() for name in time_zones.TIME_ZONES),
            "the current name of a time zone, such as Europe/Berlin",
        ),
        needs_restart=True,
    ),
)

PG_PREWARM = (
    Setting(name="pg_prewarm.autoprewarm", value_type=BoolType(), needs_restart=True),
    _integer("pg_prewarm.autoprewarm_interval", 0, 2_147_483, "s"),
)

PG_STAT_STATEMENTS = (
    *_booleans("pg_stat_statements", "save track_planning track_utility"),
    _integer("pg_stat_statements.max", 100, _INT_MAX // 2, allowed_range=(100, 100_000), needs_restart=True),
    Setting(name="pg_stat_statements.track", value_type=EnumType(("none", "top", "all"))),
)

PGAUDIT = (
    *_booleans(
        "pgaudit", "log_catalog log_client log_parameter log_relation log_rows log_statement log_statement_once"
    ),
    Setting(
        name="pgaudit.log",
        value_type=PatternType(_AUDIT_CLASSES, "classes of statements with commas between them, such as ddl, write"),
    ),
    Setting(name="pgaudit.log_level", value_type=PatternType(_LEVEL, f"one of {', '.join(_LEVELS)}")),
    _integer("pgaudit.log_parameter_max_size", 0, _INT_MAX // 2),
    Setting(name="pgaudit.role", value_type=PatternType(_ROLE, "the name of a role")),
)

TOPICS = {
    "auto_explain": AUTO_EXPLAIN,
    "pg_cron": PG_CRON,
    "pg_prewarm": PG_PREWARM,
    "pg_stat_statements": PG_STAT_STATEMENTS,
    "pgaudit": PGAUDIT,
}
EXTENSION_SETTINGS = {setting.name: setting for settings in TOPICS.values() for setting in settings}


def available_extension_settings(major: int) -> dict[str, Setting]:
    """Map names to settings, as `available_settings` does."""
    return {name: setting for name, setting in EXTENSION_SETTINGS.items() if setting.since <= major <= setting.until}
