"""Points in a branch's history: what a caller asked for, and which volume's life it is in.

Where the WAL of a branch ends now only its compute knows. It is asked before the transaction that decides, so that
nobody waits for the store while a Postgres thinks.
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
    """What was given under these names; head, when nothing was."""
    if lsn is not None and at is not None:
        raise Invalid(f"{lsn_name} and {at_name} are both given: a point is one or the other.")
    if lsn is not None:
        return Point(lsn=positions.parse_lsn(lsn, lsn_name))
    return HEAD if at is None else Point(at=_in_utc(at))


def _in_utc(at: datetime) -> datetime:
    """At the ends of time, where its zone leads out of it, the end itself."""
    try:
        return at.astimezone(UTC)
    except OverflowError:
        end = datetime.min if at.year < clock.now().year else datetime.max
        return end.replace(tzinfo=UTC)


async def read_wal_end(context: Context, project: Project, branch_id: BranchId, point: Point) -> str | None:
    """Where the branch's WAL ends, as far as the point asks for it; None: nobody knows. Before a transaction."""
    if point.lsn is None:
        return None
    async with context.services.store.read() as rows:
        branch = await rows.branches.get(project.id, branch_id)
    return None if branch is None else await context.services.engine.read_wal_end(branch.volume_id)


async def resolve_point(
    context: Context, rows: Rows, project: Project, branch: Branch, point: Point, *, name: str, end: str | None = None
) -> RecoveryTarget:
    """Where the point is; `name` is what the caller called it by, `end` comes from `end_of`."""
    if point.is_head:
        return RecoveryTarget(volume_id=branch.volume_id, point=HEAD)
    if project.history_retention_seconds == 0:
        raise Invalid(f"{name}: the project keeps no history. Set its history_retention_seconds first.")
    history = await load_history(rows, project, branch)
    return history.resolve_point(point, parameter_name=name, end_lsn=end)


async def load_history(rows: Rows, project: Project, branch: Branch) -> BranchHistory:
    retention = timedelta(seconds=project.history_retention_seconds)
    return BranchHistory(await rows.lineages.list_ranges(branch.id), retention, clock.now())
