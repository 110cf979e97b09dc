"""Planned maintenance of a project: its window, and what became of the computes that needed a restart."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bough import clock
from bough.config import Settings
from bough.domain import maintenance, maintenance_window
from bough.domain.maintenance import Maintenance
from bough.domain.maintenance_window import RestartWindow
from bough.domain.project import Project
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the computes that needed a restart."""

    ended_at: datetime
    restarted: tuple[str, ...] = ()  # endpoints
    failed: Mapping[str, str] | None = None  # endpoint → why, for those that did not start or kept the former build
    passed_over: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.restarted or self.failed or self.passed_over)

    def to_fields(self, plan: Maintenance) -> dict[str, Any]:
        return {
            "scheduled_for": plan.scheduled_for.isoformat() if plan.scheduled_for else None,
            "ended_at": self.ended_at.isoformat(),
            "restarted": list(self.restarted),
            "failed": dict(self.failed or {}),
            "passed_over": list(self.passed_over),
        }


def window_of(project: Project, settings: Settings) -> RestartWindow:
    """Return the project's window; a default one if an earlier version stored an invalid one."""
    found = RestartWindow.of_settings(project.settings)
    return found or maintenance_window.choose_default(project.id, settings.quiet_weekdays, settings.quiet_hours)


def notice_of(settings: Settings) -> timedelta:
    return timedelta(hours=settings.maintenance_notice_hours)


async def follow_window(rows: Rows, before: Project, after: Project, settings: Settings) -> None:
    """Move what is planned for a project whose window was changed."""
    window = window_of(after, settings)
    if window == window_of(before, settings):
        return
    plan = await rows.maintenance.get(after.id)
    if plan is not None and plan.is_planned:
        await rows.maintenance.save(maintenance.move(plan, window, clock.now(), notice_of(settings)))
