"""What a compute used is measured now and then while it runs, and once more before it stops.

A figure never shrinks, whoever measures: of one run only what is new since the last measure is added.
"""

from bough import log
from bough.domain.endpoint import Endpoint
from bough.engine.port import ComputeUsage, EngineError, EngineInspection
from bough.store.store import Rows

logger = log.get_logger(component="operations")


async def measure_usage(engine: EngineInspection, endpoint: Endpoint) -> ComputeUsage | None:
    """None when its compute does not run. One that cannot be asked keeps nobody from going on."""
    try:
        return await engine.measure_usage(endpoint.id)
    except EngineError as error:
        logger.warning("compute_not_measured", endpoint_id=endpoint.id, reason=error.public_message)
        return None


async def has_new_usage(rows: Rows, endpoint: Endpoint, usage: ComputeUsage) -> bool:
    known = await rows.usage.get(endpoint.id)
    branch = await rows.branches.get(endpoint.project_id, endpoint.branch_id)
    if known is None or branch is None:
        return False
    if (known.cpu_run, known.cpu_run_seconds) != (usage.started_at, usage.cpu_seconds):
        return True
    if usage.wal_position is None:
        return False
    return (branch.logical_size, branch.wal_position) != (usage.logical_bytes, usage.wal_position)


async def record_usage(rows: Rows, endpoint: Endpoint, usage: ComputeUsage) -> None:
    """Write it down, unless a later measure of the run was: then its position in the WAL is no longer true.

    Of a branch only the compute that writes it tells; a read replica may lag behind. One that ran before a restore
    tells nothing of what the branch is now.
    """
    is_latest = await rows.usage.add_cpu(endpoint.id, usage.started_at, usage.cpu_seconds)
    if not is_latest or usage.wal_position is None:
        return
    if not await rows.histories.was_restored_since(endpoint.branch_id, usage.started_at):
        await rows.branches.record_wal_position(endpoint.branch_id, usage.wal_position)
        await rows.branches.set_logical_size(endpoint.branch_id, usage.logical_bytes)
