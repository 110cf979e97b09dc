"""Reports history that falls behind: in the log, in the metrics, and in a file for `bough doctor`.

The alarm is raised long before WAL that waits to be archived can fill the disk.
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

REPEAT_SECONDS = 60.0  # minimum interval between two warnings about one lineage

logger = log.get_logger(component="tasks")


class HistoryAlarm:
    def __init__(self, settings: Settings, measurements: HistoryMeasurements) -> None:
        self._settings = settings
        self._measurements = measurements
        self._warned_at: dict[VolumeId, float] = {}
        self._written: list[HistoryProblem] | None = None

    def check(self, lineage: LiveLineage, retention: LineageRetention, status: HistoryStatus) -> None:
        problem = status.problem
        if problem is None and status.waiting_bytes >= self._settings.history_alarm_bytes:
            problem = "WAL is written faster than it is archived."
        measurement = HistoryMeasurement(
            project_id=lineage.project_id,
            branch_id=retention.branch.id,
            history_bytes=status.history_bytes,
            waiting_bytes=status.waiting_bytes,
            problem=problem,
        )
        self._record(lineage, measurement)

    def record_failure(self, lineage: LiveLineage, reason: str) -> None:
        """Record that the lineage could not be inspected."""
        known = self._measurements.get(lineage.volume_id)
        measurement = HistoryMeasurement(
            project_id=lineage.project_id,
            branch_id=lineage.branch_id or (known.branch_id if known else None),
            history_bytes=known.history_bytes if known else 0,
            waiting_bytes=known.waiting_bytes if known else 0,
            problem=reason,
        )
        self._record(lineage, measurement)

    def is_raised(self, volume_id: VolumeId) -> bool:
        return volume_id in self._warned_at

    def retain(self, volume_ids: Collection[VolumeId]) -> None:
        """Forget all other lineages."""
        self._measurements.retain(volume_ids)
        self._warned_at = {volume_id: at for volume_id, at in self._warned_at.items() if volume_id in volume_ids}

    def write(self) -> None:
        """Write the current problems for `bough doctor`."""
        problems = [
            HistoryProblem(
                volume_id=volume_id,
                project_id=measurement.project_id,
                branch_id=measurement.branch_id,
                waiting_bytes=measurement.waiting_bytes,
                trouble=measurement.problem or "",
            )
            for volume_id, measurement in self._measurements.with_problems().items()
        ]
        if problems != self._written:
            history_problems.write(self._settings, problems)
            self._written = problems

    def _record(self, lineage: LiveLineage, measurement: HistoryMeasurement) -> None:
        self._measurements.record(lineage.volume_id, measurement)
        now = clock.monotonic()
        if measurement.problem is None:
            if self._warned_at.pop(lineage.volume_id, None) is not None:
                logger.info("history_recovered", project_id=measurement.project_id, branch_id=measurement.branch_id)
                self.write()
            return
        if now - self._warned_at.get(lineage.volume_id, -REPEAT_SECONDS) >= REPEAT_SECONDS:
            self._warned_at[lineage.volume_id] = now
            logger.warning(
                "history_falls_behind",
                project_id=measurement.project_id,
                branch_id=measurement.branch_id,
                volume_id=lineage.volume_id,
                waiting_bytes=measurement.waiting_bytes,
                reason=measurement.problem,
            )
            self.write()
