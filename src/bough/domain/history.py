"""The history of a branch: which lineage it used at a time or WAL position, and how far back it can be restored. Pure.

After a restore, WAL positions go back and timelines repeat, so a point is always looked up in the list of ranges of
the branch, newest first. A time whose changes were discarded by a restore means the last commit before them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bough.domain import lsn
from bough.domain.branch import BranchLineage, Lineage
from bough.errors import Invalid
from bough.ids import VolumeId

_VOLUME, _LSN, _AT = "target_volume_id", "target_lsn", "target_at"  # keys in the parameters of operations


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A time or a WAL position; without either, everything that is committed."""

    at: datetime | None = None
    lsn: str | None = None

    @property
    def is_head(self) -> bool:
        return self.at is None and self.lsn is None


HEAD = Point()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryTarget:
    """A point in the history of one volume."""

    volume_id: VolumeId
    point: Point


def encode_target(target: RecoveryTarget) -> dict[str, str]:
    """Return the stored form, part of the parameters of an operation."""
    point = target.point
    fields = {_VOLUME: target.volume_id, _LSN: point.lsn, _AT: point.at.isoformat() if point.at else None}
    return {name: value for name, value in fields.items() if value is not None}


def decode_target(parameters: Mapping[str, Any]) -> RecoveryTarget | None:
    """Return None when the parameters contain no target."""
    if _VOLUME not in parameters:
        return None
    at = parameters.get(_AT)
    point = Point(at=datetime.fromisoformat(at) if at else None, lsn=parameters.get(_LSN))
    return RecoveryTarget(volume_id=VolumeId(parameters[_VOLUME]), point=point)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRange:
    """A part of a branch's history, with its lineage."""

    branch_lineage: BranchLineage
    lineage: Lineage

    @property
    def starts_at(self) -> datetime | None:
        """The earliest restorable time; None: nothing can be restored yet."""
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
        """None: it has not ended."""
        return None if self.branch_lineage.until_lsn is None else lsn.to_int(self.branch_lineage.until_lsn)


@dataclass(frozen=True, slots=True)
class BranchHistory:
    ranges: Sequence[LineageRange]  # oldest first
    retention: timedelta
    now: datetime

    @property
    def earliest_at(self) -> datetime | None:
        """The earliest restorable time; None: there is none."""
        earliest = min((each.starts_at for each in self.ranges if each.starts_at is not None), default=None)
        return None if earliest is None else max(earliest, self.now - self.retention)

    def resolve_point(self, point: Point, *, parameter_name: str, end_lsn: str | None) -> RecoveryTarget:
        """Find the volume that contains the point. `parameter_name` appears in errors; `end_lsn` is the current end of
        the WAL, if known.
        """
        if point.at is not None:
            return self._at(point.at.astimezone(UTC), parameter_name)
        if point.lsn is not None:
            return self._at_lsn(point.lsn, parameter_name, end_lsn)
        return RecoveryTarget(volume_id=self.ranges[-1].lineage.volume_id, point=HEAD)

    def _at(self, time: datetime, name: str) -> RecoveryTarget:
        earliest = self.earliest_at
        if earliest is None:
            raise Invalid(f"{name}: the branch has no history to restore yet. Try again in a minute.")
        if not earliest <= time <= self.now:
            where = "in the future" if time > self.now else "before the history that is kept"
            raise Invalid(f"{name} ({_format_time(time)}) is {where}: use a time {self._window(earliest)}.")
        for each in reversed(self.ranges):
            if each.starts_at is not None and each.starts_at <= time:
                return _clip_to_range(each, time)
        window = self._window(earliest)
        raise Invalid(f"{name} ({_format_time(time)}) is before the history that is kept: use a time {window}.")

    def _at_lsn(self, position: str, name: str, end: str | None) -> RecoveryTarget:
        requested = lsn.to_int(position)
        for each in reversed(self.ranges):
            is_last = each is self.ranges[-1]
            until = lsn.to_int(end) if is_last and end is not None else each.end_lsn
            if each.starts_at is not None and each.start_lsn <= requested and (until is None or requested <= until):
                return RecoveryTarget(volume_id=each.lineage.volume_id, point=Point(lsn=position))
        restorable = [each for each in self.ranges if each.starts_at is not None]
        if not restorable:
            raise Invalid(f"{name}: the branch has no history to restore yet. Try again in a minute.")
        last = end or self.ranges[-1].branch_lineage.until_lsn or "now"
        window = f"from {lsn.to_text(restorable[0].start_lsn)} to {last}"
        raise Invalid(f"{name} ({position}) is not in the branch's history: use a position {window}.")

    def _window(self, earliest: datetime) -> str:
        return f"from {_format_time(earliest)} to {_format_time(self.now)}"


def _clip_to_range(lineage_range: LineageRange, time: datetime) -> RecoveryTarget:
    """A time after the end of the range means its end."""
    part, volume = lineage_range.branch_lineage, lineage_range.lineage.volume_id
    if part.until_at is None or time < part.until_at:
        return RecoveryTarget(volume_id=volume, point=Point(at=time))
    return RecoveryTarget(volume_id=volume, point=Point(lsn=part.until_lsn))


def _format_time(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
