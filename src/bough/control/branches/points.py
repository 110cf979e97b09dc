"""Points in a branch's history: parse the caller's parameters and find the volume that holds the point.

Only the compute knows where the WAL of a branch currently ends. It is asked before the transaction, so that no
other transaction waits while Postgres answers.
"""

from datetime import UTC, datetime, timedelta

from bough import clock
from bough.control.context import Context
from bough.domain import lsn as positions
from bough.domain.branch import Branch
from bough.domain.history import HEAD, BranchHistory, Point, RecoveryTarget
from bough.domain.project import Project
from bough.errors import Invalid
from bough.ids import BranchId
from bough.store.store import Rows


def parse_point(lsn: str | None, at: datetime | None, *, lsn_name: str, at_name: str) -> Point:
    """Return the point that the parameters of these names give, or HEAD if both are omitted."""
    if lsn is not None and at is not None:
        raise Invalid(f"Use {lsn_name} or {at_name}, not both.")
    if lsn is not None:
        return Point(lsn=positions.parse_lsn(lsn, lsn_name))
    return HEAD if at is None else Point(at=_in_utc(at))


def _in_utc(at: datetime) -> datetime:
    """Convert to UTC; clamp a time that the conversion would move out of the supported range."""
    try:
        return at.astimezone(UTC)
    except OverflowError:
        end = datetime.min if at.year < clock.now().year else datetime.max
        return end.replace(tzinfo=UTC)


async def read_wal_end(context: Context, project: Project, branch_id: BranchId, point: Point) -> str | None:
    """Return where the branch's WAL ends if the point is an LSN; None if unknown. Call before a transaction."""
    if point.lsn is None:
        return None
    async with context.services.store.read() as rows:
        branch = await rows.branches.get(project.id, branch_id)
    return None if branch is None else await context.services.engine.read_wal_end(branch.volume_id)


async def resolve_point(
    context: Context,
    rows: Rows,
    project: Project,
    branch: Branch,
    point: Point,
    *,
    name: str,
    wal_end: str | None = None,
) -> RecoveryTarget:
    """Return the volume and point to recover to. `name` is the caller's parameter; `wal_end` is from `read_wal_end`."""
    if point.is_head:
        return RecoveryTarget(volume_id=branch.volume_id, point=HEAD)
    if project.history_retention_seconds == 0:
        raise Invalid(f"{name}: the project keeps no history. Set its history_retention_seconds first.")
    history = await load_history(rows, project, branch)
    return history.resolve_point(point, parameter_name=name, end_lsn=wal_end)


async def load_history(rows: Rows, project: Project, branch: Branch) -> BranchHistory:
    retention = timedelta(seconds=project.history_retention_seconds)
    return BranchHistory(await rows.lineages.list_ranges(branch.id), retention, clock.now())
