"""The port to keep and prune the history of volumes."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from bough.ids import ProjectId, VolumeId


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStatus:
    """The state of a volume's history."""

    began_at: datetime | None  # the earliest time that can be restored; None: none yet
    began_lsn: str | None
    history_bytes: int  # on disk: archived WAL, and what only bases contain
    waiting_bytes: int  # of WAL that is not archived yet
    problem: str | None = None  # why archiving falls behind, in one sentence
    is_base_due: bool = False  # a base is due and was not taken, because the caller did not allow it


class HistoryEngine(Protocol):
    """Keep and prune the history of volumes."""

    async def apply_retention(self, volume: VolumeId, since: datetime, *, take_bases: bool = True) -> HistoryStatus:
        """Keep every point since the given time, or since the history began, and delete what only earlier points
        need, unless the history of another volume depends on it. Take a base when one is due, which may take long,
        unless `take_bases` is False.
        """

    async def ensure_history_started(self, project: ProjectId, volume: VolumeId) -> HistoryStatus:
        """Start a history that begins with the current contents of the volume. No compute may run on it."""

    async def retire_volume(self, project: ProjectId, volume: VolumeId) -> None:
        """Delete the volume and keep its history: every commit in it can still be restored."""
