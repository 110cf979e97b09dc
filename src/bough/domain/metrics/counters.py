"""Differences between two readings of a compute's counters.

Postgres keeps its counters over a clean restart and sets them to zero after a crash, when it notes the time. A restored
branch has another volume, whose counters have nothing to do with those before.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from bough.domain.metrics.fields import COMPUTE_FIELDS

NEW_SECONDS = 120.0  # a compute whose counters began at most this long ago is new: everything is counted
_MIN_SECONDS = 15.0  # the clock may have been set between two readings
_LIMITS = {field.name: field.limit for field in COMPUTE_FIELDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterReading:
    """The counters of a compute at one moment."""

    volume_id: str
    at: datetime
    reset_at: datetime | None  # when the counters were last zero; None: unknown
    counts: Mapping[str, int]  # by name of the metric
    wal_position: int | None  # end of its WAL in bytes; None: it writes none

    def to_stored(self) -> dict[str, Any]:
        return {
            "volume": self.volume_id,
            "at": self.at.isoformat(),
            "reset_at": self.reset_at and self.reset_at.isoformat(),
            "counts": dict(self.counts),
            "wal": self.wal_position,
        }

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Self:
        return cls(
            volume_id=stored["volume"],
            at=datetime.fromisoformat(stored["at"]),
            reset_at=datetime.fromisoformat(stored["reset_at"]) if stored["reset_at"] else None,
            counts=stored["counts"],
            wal_position=stored["wal"],
        )


def count_since(before: CounterReading | None, now: CounterReading) -> dict[str, int]:
    """Return what was counted between the two readings: never negative, and without what is not plausible.

    Without an earlier reading of the same volume, only the counters of a new compute are known.
    """
    if before is None or before.volume_id != now.volume_id:
        return _plausible(now.counts if _is_new(now) else {}, NEW_SECONDS)
    began_at_zero = now.reset_at != before.reset_at
    deltas = {
        # A counter also decreases when a database is dropped; what the others did in this interval is then unknown.
        name: value if began_at_zero else max(0, value - before.counts.get(name, value))
        for name, value in now.counts.items()
    }
    if now.wal_position is not None and before.wal_position is not None:
        deltas["wal_bytes"] = max(0, now.wal_position - before.wal_position)
    return _plausible(deltas, (now.at - before.at).total_seconds())


def _is_new(now: CounterReading) -> bool:
    if now.reset_at is None:
        return False
    return abs(now.at - now.reset_at) <= timedelta(seconds=NEW_SECONDS)


def _plausible(deltas: Mapping[str, int], seconds: float) -> dict[str, int]:
    elapsed = max(seconds, _MIN_SECONDS)
    return {name: delta for name, delta in deltas.items() if delta <= _LIMITS[name] * elapsed}
