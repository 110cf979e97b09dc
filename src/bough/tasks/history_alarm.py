"""Who hears that a history falls behind: the log, the figures that Prometheus reads, and a note for the doctor.

Raised long before WAL that waits to be archived can fill a disk.
"""

from collections.abc import Collection

from bough import clock, log
from bough.config import Settings
from bough.control.platform import history_problems
from bough.control.platform.history_problems import HistoryProblem
from bough.control.platform.measurements import HistoryMeasurement, HistoryMeasurements
from bough.engine.port import HistoryStatus
from bough.ids import VolumeId
from bough.operations.retention import LineageRetention
from bough.store.histories import LiveLineage

REPEAT_SECONDS = 60.0  # seconds between two lines about one lineage, at least

logger = log.get_logger(component="tasks")


class HistoryAlarm:
    def __init__(self, settings: Settings, measurements: HistoryMeasurements) -> None:
        self._settings = settings
        self._measurements = measurements
        self._warned_at: dict[VolumeId, float] = {}
        self._written: list[HistoryProblem] | None = None

    def check(self, lineage: LiveLineage, retention: LineageRetention, kept: HistoryStatus) -> None:
        trouble = kept.trouble
        if trouble is None and kept.waiting_bytes >= self._settings.history_alarm_bytes:
            trouble = "WAL is written faster than it is archived."
        figure = HistoryMeasurement(
            project_id=lineage.project_id,
            branch_id=retention.branch.id,
            history_bytes=kept.history_bytes,
            waiting_bytes=kept.waiting_bytes,
            problem=trouble,
        )
        self._note(lineage, figure)

    def record_failure(self, lineage: LiveLineage, reason: str) -> None:
        """It could not be looked at."""
        known = self._measurements.get(lineage.volume_id)
        figure = HistoryMeasurement(
            project_id=lineage.project_id,
            branch_id=lineage.branch_id or (known.branch_id if known else None),
            history_bytes=known.history_bytes if known else 0,
            waiting_bytes=known.waiting_bytes if known else 0,
            problem=reason,
        )
        self._note(lineage, figure)

    def is_raised(self, volume_id: VolumeId) -> bool:
        return volume_id in self._warned_at

    def retain(self, volume_ids: Collection[VolumeId]) -> None:
        """All others are gone."""
        self._measurements.retain(volume_ids)
        self._warned_at = {volume_id: at for volume_id, at in self._warned_at.items() if volume_id in volume_ids}

    def write(self) -> None:
        """Whom the doctor shall name."""
        notes = [
            HistoryProblem(
                volume_id=volume_id,
                project_id=figure.project_id,
                branch_id=figure.branch_id,
                waiting_bytes=figure.waiting_bytes,
                trouble=figure.problem or "",
            )
            for volume_id, figure in self._measurements.with_problems().items()
        ]
        if notes != self._written:
            history_problems.write(self._settings, notes)
            self._written = notes

    def _note(self, lineage: LiveLineage, figure: HistoryMeasurement) -> None:
        self._measurements.record(lineage.volume_id, figure)
        now = clock.monotonic()
        if figure.problem is None:
            if self._warned_at.pop(lineage.volume_id, None) is not None:
                logger.info("history_well_again", project_id=figure.project_id, branch_id=figure.branch_id)
                self.write()
            return
        if now - self._warned_at.get(lineage.volume_id, -REPEAT_SECONDS) >= REPEAT_SECONDS:
            self._warned_at[lineage.volume_id] = now
            logger.warning(
                "history_falls_behind",
                project_id=figure.project_id,
                branch_id=figure.branch_id,
                volume_id=lineage.volume_id,
                waiting_bytes=figure.waiting_bytes,
                reason=figure.problem,
            )
            self.write()
