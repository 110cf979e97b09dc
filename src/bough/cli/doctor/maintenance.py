"""Checks for Postgres builds that do not start, computes that wait for a restart, and failed automatic updates."""

from typing import Any

from bough.cli import output, planned_restarts
from bough.cli.doctor.finding import Finding, ok, warning
from bough.config import Settings
from bough.control.platform import update_problems

NAME = "maintenance"
_MAX_NAMED = 5


def check_maintenance(settings: Settings) -> Finding:
    fetched = planned_restarts.try_fetch(settings)
    problem = update_problems.read(settings)
    if problem is not None:
        update = output.format_command("postgres update", settings.home)
        return warning(
            NAME, f"The automatic update of Postgres failed at {problem.at}: {problem.message}", f"`{update}`"
        )
    if fetched is None:
        return ok(NAME, "not checked, because the platform is not running")
    if problems := [*_list_unusable(fetched), *_list_put_back(fetched)]:
        retry = output.format_command("postgres update --now", settings.home)
        return warning(
            NAME,
            " ".join(problems),
            f"a newer build, or `{retry}`, which tries it again (docs/runbooks/build-does-not-start.md)",
        )
    return ok(NAME, planned_restarts.describe(fetched) or "no compute waits for a restart")


def _list_unusable(fetched: dict[str, Any]) -> list[str]:
    return [
        f"{each['pin']}: the newer build is not used. {each['problem']}"
        for each in fetched["builds"]
        if each.get("problem")
    ]


def _list_put_back(fetched: dict[str, Any]) -> list[str]:
    found = fetched["put_back"]
    named = [
        f"The branch {each['branch_id']} of the project {each['project_id']} runs Postgres {each['kept_version']}, "
        f"because {each['version']} did not start: {each['reason']}"
        for each in found[:_MAX_NAMED]
    ]
    return named + ([f"{len(found) - _MAX_NAMED} more do."] if len(found) > _MAX_NAMED else [])
