"""Who hears that a history falls behind: the log, the figures that Prometheus reads, and a note for the doctor.

Raised long before WAL that waits to be archived can fill a disk.
"""

from collections.abc import Collection

from bough import clock, log
from bough.config import Settings
from bough.control import history_notes
from bough.control.history_figures import HistoryFigure, HistoryFigures
from bough.control.history_notes import HistoryNote
from bough.engine.port import Kept
from bough.ids import VolumeId
from bough.operations.keeping import Wish
from bough.store.histories import LivingLineage

AGAIN = 60.0  # seconds between two lines about one lineage, at least

logger = log.get(room="tasks")


class HistoryAlarm:
    def __init__(self, settings: Settings, figures: HistoryFigures) -> None:
        self._settings = settings
        self._figures = figures
        self._said: dict[VolumeId, float] = {}
        self._written: list[HistoryNote] | None = None

    def look(self, lineage: LivingLineage, wish: Wish, kept: Kept) -> None:
        trouble = kept.trouble
        if trouble is None and kept.waiting_bytes >= self._settings.history_alarm_bytes:
            trouble = "WAL is written faster than it is archived."
        figure = HistoryFigure(
            project_id=lineage.project_id,
            branch_id=wish.holder.id,
            history_bytes=kept.history_bytes,
            waiting_bytes=kept.waiting_bytes,
            trouble=trouble,
        )
        self._note(lineage, figure)

    def failed(self, lineage: LivingLineage, reason: str) -> None:
        """It could not be looked at."""
        known = self._figures.of(lineage.volume_id)
        figure = HistoryFigure(
            project_id=lineage.project_id,
            branch_id=lineage.branch_id or (known.branch_id if known else None),
            history_bytes=known.history_bytes if known else 0,
            waiting_bytes=known.waiting_bytes if known else 0,
            trouble=reason,
        )
        self._note(lineage, figure)

    def is_raised(self, volume_id: VolumeId) -> bool:
        return volume_id in self._said

    def retain(self, volume_ids: Collection[VolumeId]) -> None:
        """All others are gone."""
        self._figures.retain(volume_ids)
        self._said = {volume_id: at for volume_id, at in self._said.items() if volume_id in volume_ids}

    def write(self) -> None:
        """Whom the doctor shall name."""
        notes = [
            HistoryNote(
                volume_id=volume_id,
                project_id=figure.project_id,
                branch_id=figure.branch_id,
                waiting_bytes=figure.waiting_bytes,
                trouble=figure.trouble or "",
            )
            for volume_id, figure in self._figures.troubles().items()
        ]
        if notes != self._written:
            history_notes.write(self._settings, notes)
            self._written = notes

    def _note(self, lineage: LivingLineage, figure: HistoryFigure) -> None:
        self._figures.note(lineage.volume_id, figure)
        now = clock.monotonic()
        if figure.trouble is None:
            if self._said.pop(lineage.volume_id, None) is not None:
                logger.info("history_well_again", project_id=figure.project_id, branch_id=figure.branch_id)
                self.write()
            return
        if now - self._said.get(lineage.volume_id, -AGAIN) >= AGAIN:
            self._said[lineage.volume_id] = now
            logger.warning(
                "history_falls_behind",
                project_id=figure.project_id,
                branch_id=figure.branch_id,
                volume_id=lineage.volume_id,
                waiting_bytes=figure.waiting_bytes,
                reason=figure.trouble,
            )
            self.write()
