"""A branch's history: which lineage it was at a moment or at a position in the WAL, and how far back one can go.

After a restore positions go backwards and timelines repeat, so a point is always looked up in the branch's own list
of stretches, newest first. A moment that a restore took away means the last commit before it was taken away. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bough.domain import lsn
from bough.domain.branch import BranchLineage, Lineage
from bough.errors import Invalid
from bough.ids import VolumeId

_VOLUME, _LSN, _AT = "target_volume_id", "target_lsn", "target_at"  # parameters of operations


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A moment or a position in the WAL; neither: all that is committed."""

    at: datetime | None = None
    lsn: str | None = None

    @property
    def is_head(self) -> bool:
        return self.at is None and self.lsn is None


HEAD = Point()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryTarget:
    """A point in one volume's life."""

    volume_id: VolumeId
    point: Point


def encode_target(target: RecoveryTarget) -> dict[str, str]:
    """For the parameters of an operation."""
    point = target.point
    fields = {_VOLUME: target.volume_id, _LSN: point.lsn, _AT: point.at.isoformat() if point.at else None}
    return {name: value for name, value in fields.items() if value is not None}


def decode_target(parameters: Mapping[str, Any]) -> RecoveryTarget | None:
    """What was written there; None: no point was named."""
    if _VOLUME not in parameters:
        return None
    at = parameters.get(_AT)
    point = Point(at=datetime.fromisoformat(at) if at else None, lsn=parameters.get(_LSN))
    return RecoveryTarget(volume_id=VolumeId(parameters[_VOLUME]), point=point)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRange:
    """A stretch of a branch's history, with its lineage."""

    branch_lineage: BranchLineage
    lineage: Lineage

    @property
    def starts_at(self) -> datetime | None:
        """Since when one can go back to it; None: not at all so far."""
        began = self.lineage.began_at
        if began is None or self.branch_lineage.from_at is None:
            return began
        return max(began, self.branch_lineage.from_at)

    @property
    def start_lsn(self) -> int:
        known = [each for each in (self.lineage.began_lsn, self.branch_lineage.from_lsn) if each is not None]
        return max(map(lsn.to_int, known), default=0)

    @property
    def end_lsn(self) -> int | None:
        """None: it goes on."""
        return None if self.branch_lineage.until_lsn is None else lsn.to_int(self.branch_lineage.until_lsn)


@dataclass(frozen=True, slots=True)
class BranchHistory:
    ranges: Sequence[LineageRange]  # in the order they were lived
    retention: timedelta
    now: datetime

    @property
    def earliest_at(self) -> datetime | None:
        """The earliest moment that one can go back to; None: there is none."""
        earliest = min((past.starts_at for past in self.ranges if past.starts_at is not None), default=None)
        return None if earliest is None else max(earliest, self.now - self.retention)

    def resolve_point(self, point: Point, *, parameter_name: str, end_lsn: str | None) -> RecoveryTarget:
        """Where the point is. `name` is what the caller called it by; `end` is where the WAL ends now, if known."""
        if point.at is not None:
            return self._at(point.at.astimezone(UTC), parameter_name)
        if point.lsn is not None:
            return self._at_lsn(point.lsn, parameter_name, end_lsn)
        return RecoveryTarget(volume_id=self.ranges[-1].lineage.volume_id, point=HEAD)

    def _at(self, moment: datetime, name: str) -> RecoveryTarget:
        opens = self.earliest_at
        if opens is None:
            raise Invalid(f"{name}: the branch has no history to go back to yet. Try again in a minute.")
        if not opens <= moment <= self.now:
            which = "in the future" if moment > self.now else "before the history that is kept"
            raise Invalid(f"{name} ({_format_time(moment)}) is {which}: give a moment {self._window(opens)}.")
        for past in reversed(self.ranges):
            if past.starts_at is not None and past.starts_at <= moment:
                return _clip_to_range(past, moment)
        raise Invalid(f"{name} ({_format_time(moment)}) is before the history that is kept: {self._window(opens)}.")

    def _at_lsn(self, position: str, name: str, end: str | None) -> RecoveryTarget:
        wanted = lsn.to_int(position)
        for past in reversed(self.ranges):
            is_last = past is self.ranges[-1]
            until = lsn.to_int(end) if is_last and end is not None else past.end_lsn
            if past.starts_at is not None and past.start_lsn <= wanted and (until is None or wanted <= until):
                return RecoveryTarget(volume_id=past.lineage.volume_id, point=Point(lsn=position))
        known = [past for past in self.ranges if past.starts_at is not None]
        if not known:
            raise Invalid(f"{name}: the branch has no history to go back to yet. Try again in a minute.")
        last = end or self.ranges[-1].branch_lineage.until_lsn or "now"
        window = f"from {lsn.to_text(known[0].start_lsn)} to {last}"
        raise Invalid(f"{name} ({position}) is not in the branch's history: give a position {window}.")

    def _window(self, opens: datetime) -> str:
        return f"from {_format_time(opens)} to {_format_time(self.now)}"


def _clip_to_range(past: LineageRange, moment: datetime) -> RecoveryTarget:
    """Where the stretch ended before, its end is meant."""
    stretch, volume = past.branch_lineage, past.lineage.volume_id
    if stretch.until_at is None or moment < stretch.until_at:
        return RecoveryTarget(volume_id=volume, point=Point(at=moment))
    return RecoveryTarget(volume_id=volume, point=Point(lsn=stretch.until_lsn))


def _format_time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
