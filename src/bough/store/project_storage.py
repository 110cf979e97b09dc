"""What the storage of a project comes to, as a part of a question about projects.

The databases of its root branches; of every other branch what it wrote since it was made, at most what its databases
hold, for the rest is shared with its parent; what is kept to go back to; and what snapshots alone hold. None, until a
branch was measured.
"""

import sqlalchemy as sa

from bough.store.tables import branches, lineages, projects, snapshots

_own = sa.case(
    (branches.c.parent_id.is_(None), branches.c.logical_size),
    (branches.c.written_bytes < branches.c.logical_size, branches.c.written_bytes),
    else_=branches.c.logical_size,
)
_DATA = (
    sa.select(sa.func.sum(_own))
    .where(branches.c.project_id == projects.c.id, branches.c.deleted_at.is_(None))
    .scalar_subquery()
)
_HISTORY = (
    sa.select(sa.func.sum(lineages.c.history_bytes)).where(lineages.c.project_id == projects.c.id).scalar_subquery()
)
_SNAPSHOTS = (
    sa.select(sa.func.sum(snapshots.c.own_bytes))
    .where(snapshots.c.project_id == projects.c.id, snapshots.c.deleted_at.is_(None))
    .scalar_subquery()
)
STORAGE_BYTES = _DATA + sa.func.coalesce(_HISTORY, 0) + sa.func.coalesce(_SNAPSHOTS, 0)
