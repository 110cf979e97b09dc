"""The audit logs of all computes: collected from what their servers write."""

from pathlib import Path

from bough import log
from bough.engine.local.computes import audit_collection
from bough.engine.local.computes.audit_collection import AuditRetention
from bough.engine.local.computes.runs import ComputeRuns
from bough.engine.local.folders import Folders
from bough.ids import EndpointId

logger = log.get_logger(component="engine")


class AuditLogs:
    def __init__(self, folders: Folders, runs: ComputeRuns, retention: AuditRetention) -> None:
        self._folders = folders
        self._runs = runs
        self._retention = retention

    def collect_all(self) -> int:
        """Copy new entries to the audit logs. Return their number."""
        if not self._folders.audit.is_dir():
            return 0
        return sum(self._collect(folder) for folder in sorted(self._folders.audit.iterdir()))

    def _collect(self, folder: Path) -> int:
        """Collect the entries of one compute. A failure does not affect the others."""
        endpoint = EndpointId(folder.name)
        try:
            count = audit_collection.collect(folder, self._folders.audit_log(endpoint), self._retention)
            if not count and self._runs.get(endpoint) is None:
                audit_collection.shorten(folder)
        except OSError as error:
            logger.error("audit_log_not_collected", endpoint_id=endpoint, reason=str(error))
            return 0
        return count
