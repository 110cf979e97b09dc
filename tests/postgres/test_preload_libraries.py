"""Which libraries are preloaded, for every combination of the settings of a project and an endpoint."""

from typing import Any

import pytest

from bough.errors import Invalid
from bough.postgres import preload_libraries

DEFAULT = ("pg_stat_statements",)


def enabled(*names: str, **others: Any) -> dict[str, Any]:
    return {"enabled_libraries": list(names), **others}


@pytest.mark.parametrize(
    ("project", "endpoint", "expected"),
    [
        (None, None, DEFAULT),
        ({}, None, DEFAULT),
        ({"use_defaults": None, "enabled_libraries": None}, None, DEFAULT),
        ({"use_defaults": True}, None, DEFAULT),
        ({"use_defaults": False}, None, ()),
        (enabled(use_defaults=False), None, ()),
        (enabled(), None, ()),
        (enabled("pg_cron"), None, ("pg_cron",)),
        (enabled("pg_cron", use_defaults=True), None, (*DEFAULT, "pg_cron")),
        (enabled("pg_cron", use_defaults=False), None, ("pg_cron",)),
        (enabled("pg_cron", "pg_stat_statements", use_defaults=True), None, (*DEFAULT, "pg_cron")),
        (enabled("neon", "pg_stat_statements"), None, DEFAULT),
        (enabled("neon", use_defaults=False), None, ()),
        (enabled("auto_explain, pg_cron", "pg_cron,pg_prewarm"), None, ("auto_explain", "pg_cron", "pg_prewarm")),
        (enabled("pg_cron"), enabled("pgaudit"), ("pgaudit",)),
        (enabled("pg_cron"), enabled(use_defaults=False), ()),
        (enabled("pg_cron"), {"use_defaults": True}, DEFAULT),
        (enabled("pg_cron"), {}, ("pg_cron",)),
        (enabled("no_longer_in_the_catalog", "pg_cron"), None, ("pg_cron",)),
    ],
)
def test_what_is_preloaded(
    project: dict[str, Any] | None, endpoint: dict[str, Any] | None, expected: tuple[str, ...]
) -> None:
    assert preload_libraries.select(project, endpoint, 17) == expected


@pytest.mark.parametrize("names", [["neon"], ["neon", "pg_stat_statements"], ["pg_cron,auto_explain"], []])
def test_what_is_accepted(names: list[str]) -> None:
    preload_libraries.check_settings(enabled(*names), 17)


@pytest.mark.parametrize(
    "name", ["pg_stat", "passwordcheck", "auth_delay", "basic_archive", "pg_cron,basebackup_to_shell"]
)
def test_what_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(Invalid, match="Available: age, auto_explain, pg_cron"):
        preload_libraries.check_settings(enabled(name), 17)


@pytest.mark.parametrize(("cu", "statements"), [(0.25, "1000"), (1, "1000"), (2.5, "2500"), (56, "5000")])
def test_small_computes_keep_room_for_fewer_statements(cu: float, statements: str) -> None:
    parameters = preload_libraries.build_overridable_settings(DEFAULT, cu)
    assert parameters == {"pg_stat_statements.max": statements}
    assert preload_libraries.build_overridable_settings(("pg_cron",), cu) == {}
