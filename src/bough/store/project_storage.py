"""The SQL expression for the storage that a project uses.

It is the sum of the databases of root branches, of the data that the other branches wrote since their creation (at
most the size of their databases, as the rest is shared with the parent), of the history, and of the data that only
snapshots hold. It is NULL until a branch has been measured.
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
