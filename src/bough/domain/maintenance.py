"""When the computes of a project are restarted for an update, and what becomes of the plan. Pure.

A plan exists while `scheduled_for` is set. It is made when a running compute needs a restart, and ends with its window.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from bough.domain.maintenance_window import RestartWindow
from bough.ids import EndpointId, ProjectId

LAST_MINUTES = timedelta(minutes=10)  # of a window, in which open transactions no longer delay a restart
WINDOWS_BEFORE_FORCE = 2
_FORCED_LENGTH = timedelta(hours=1)


class RestartReason(StrEnum):
    BUILD = "build"  # it runs another Postgres build than a new start would use
    SETTINGS = "settings"  # settings wait for its next start


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartNeed:
    """Why a running compute needs a restart."""

    project_id: ProjectId
    endpoint_id: EndpointId
    reasons: tuple[RestartReason, ...]
    from_version: str  # of Postgres
    to_version: str
    settings: tuple[str, ...] = ()  # that wait
    fixes_vulnerabilities: bool = False
    is_waiting_for_base: bool = False  # a restart would not bring the new build yet

    def to_fields(self) -> dict[str, Any]:
        return {
            "reasons": list(self.reasons),
            "from_version": self.from_version,
            "to_version": self.to_version,
            "settings": list(self.settings),
            "fixes_vulnerabilities": self.fixes_vulnerabilities,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    project_id: ProjectId
    scheduled_for: datetime | None = None  # the start of the window; None: nothing is planned
    ends_at: datetime | None = None
    noticed_at: datetime  # when it was announced
    missed_windows: int = 0  # in a row
    reasons: Mapping[str, Any] = field(default_factory=dict)  # by endpoint: the fields of its `RestartNeed`
    outcome: Mapping[str, Any] = field(default_factory=dict)  # of the last window

    @property
    def is_planned(self) -> bool:
        return self.scheduled_for is not None


class Step(StrEnum):
    WAIT = "wait"
    PLAN = "plan"
    RESTART = "restart"
    FINISH = "finish"
    POSTPONE = "postpone"


def next_step(plan: Maintenance | None, now: datetime, *, is_needed: bool, is_settled: bool) -> Step:
    """Return what to do now. `is_settled`: no restart of the plan is under way."""
    if plan is None or plan.scheduled_for is None or plan.ends_at is None:
        return Step.PLAN if is_needed else Step.WAIT
    if now < plan.scheduled_for:
        return Step.WAIT
    if not is_settled:
        return Step.RESTART if now < plan.ends_at else Step.WAIT
    if not is_needed:
        return Step.FINISH
    return Step.RESTART if now < plan.ends_at else Step.POSTPONE


def plan_first(project_id: ProjectId, window: RestartWindow, now: datetime, notice: timedelta) -> Maintenance:
    return _plan_at(Maintenance(project_id=project_id, noticed_at=now), window.next_start(now + notice), window)


def postpone(plan: Maintenance, window: RestartWindow, now: datetime, *, is_forced: bool) -> Maintenance:
    """Return the plan for the next window, after one in which not everything was restarted.

    `is_forced`: after two of them the next full hour is used, for an update that fixes vulnerabilities.
    """
    missed = replace(plan, missed_windows=plan.missed_windows + 1)
    if is_forced and missed.missed_windows >= WINDOWS_BEFORE_FORCE:
        start = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return replace(missed, scheduled_for=start, ends_at=start + _FORCED_LENGTH)
    return _plan_at(missed, window.next_start(now), window)


def move(plan: Maintenance, window: RestartWindow, now: datetime, notice: timedelta) -> Maintenance:
    """Return the plan after its project got another window."""
    if plan.scheduled_for is None:
        return plan
    if plan.scheduled_for <= now and window.contains(now):
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return replace(plan, ends_at=midnight + timedelta(minutes=window.end_minute))
    return _plan_at(plan, window.next_start(max(now, plan.noticed_at + notice)), window)


def finish(plan: Maintenance, outcome: Mapping[str, Any]) -> Maintenance:
    """Return the row without a plan."""
    return replace(plan, scheduled_for=None, ends_at=None, missed_windows=0, reasons={}, outcome=outcome)


def may_interrupt(plan: Maintenance, now: datetime) -> bool:
    """Return whether a restart no longer waits for open transactions."""
    return plan.ends_at is not None and now >= plan.ends_at - LAST_MINUTES


def _plan_at(plan: Maintenance, start: datetime, window: RestartWindow) -> Maintenance:
    return replace(plan, scheduled_for=start, ends_at=start + window.length)
