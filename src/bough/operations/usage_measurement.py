"""Measures the usage of computes: periodically while they run, and once more before they stop.

Recorded usage never decreases: of each run only the difference to the last measurement is added.
"""

from bough import log
from bough.domain.endpoint import Endpoint
from bough.engine.port import ComputeUsage, EngineError, EngineInspection
from bough.store.store import Rows

logger = log.get_logger(component="operations")


async def measure_usage(engine: EngineInspection, endpoint: Endpoint) -> ComputeUsage | None:
    """Return None when the compute does not run or cannot be queried."""
    try:
        return await engine.measure_usage(endpoint.id)
    except EngineError as error:
        logger.warning("compute_not_measured", endpoint_id=endpoint.id, reason=error.public_message)
        return None


async def has_new_usage(rows: Rows, endpoint: Endpoint, usage: ComputeUsage) -> bool:
    stored = await rows.usage.get(endpoint.id)
    branch = await rows.branches.get(endpoint.project_id, endpoint.branch_id)
    if stored is None or branch is None:
        return False
    if (stored.cpu_run, stored.cpu_run_seconds) != (usage.started_at, usage.cpu_seconds):
        return True
    if usage.wal_position is None:
        return False
    return (branch.logical_size, branch.wal_position) != (usage.logical_bytes, usage.wal_position)


async def record_usage(rows: Rows, endpoint: Endpoint, usage: ComputeUsage) -> None:
    """Record the usage, unless a later measurement of the same run is recorded already.

    Size and WAL position come only from the read-write compute, because a read replica may lag behind, and not from a
    compute that was started before the branch was restored.
    """
    is_latest = await rows.usage.add_cpu(endpoint.id, usage.started_at, usage.cpu_seconds)
    if not is_latest or usage.wal_position is None:
        return
    if not await rows.histories.was_restored_since(endpoint.branch_id, usage.started_at):
        await _record_written(rows, endpoint, usage.wal_position)
        await rows.branches.record_wal_position(endpoint.branch_id, usage.wal_position)
        await rows.branches.set_logical_size(endpoint.branch_id, usage.logical_bytes)


async def _record_written(rows: Rows, endpoint: Endpoint, wal_position: int) -> None:
    branch = await rows.branches.get(endpoint.project_id, endpoint.branch_id)
    if branch is not None and branch.wal_position is not None and wal_position > branch.wal_position:
        await rows.usage.add_written(endpoint.id, wal_position - branch.wal_position)
