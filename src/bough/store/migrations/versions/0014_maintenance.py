"""Planned maintenance of projects, and a maintenance window of its own for each project.

Until now every project had the same window, whose value had no effect. Projects that still have it get the hour that a
new project with their id would get with default settings, so that not all of them are restarted in the same minute.
"""

import hashlib
from typing import Any

import sqlalchemy as sa
from alembic import op

from bough.store.types import Json, UtcDateTime

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_KEY = "maintenance_window"
_FORMER = {"weekdays": [7], "start_time": "03:00", "end_time": "04:00"}


def upgrade() -> None:
    op.create_table(
        "maintenance",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("scheduled_for", UtcDateTime(), nullable=True),
        sa.Column("ends_at", UtcDateTime(), nullable=True),
        sa.Column("noticed_at", UtcDateTime(), nullable=False),
        sa.Column("missed_windows", sa.Integer(), nullable=False),
        sa.Column("reasons", Json, nullable=False),
        sa.Column("outcome", Json, nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_maintenance_project_id"),
        sa.PrimaryKeyConstraint("project_id", name="pk_maintenance"),
    )
    planned = sa.text("scheduled_for is not null")
    op.create_index(
        "ix_maintenance_planned", "maintenance", ["scheduled_for"], sqlite_where=planned, postgresql_where=planned
    )
    _spread_windows()


def _spread_windows() -> None:
    projects = sa.table("projects", sa.column("id", sa.Text()), sa.column("settings", Json))
    connection = op.get_bind()
    for project_id, settings in connection.execute(sa.select(projects.c.id, projects.c.settings)).fetchall():
        if (settings or {}).get(_KEY) == _FORMER:
            changed = {**settings, _KEY: _choose_window(project_id)}
            connection.execute(sa.update(projects).where(projects.c.id == project_id).values(settings=changed))


def _choose_window(project_id: str) -> dict[str, Any]:
    number = int.from_bytes(hashlib.sha256(project_id.encode()).digest()[:8])
    minute = number // 7 % 21 * 15
    start, end = (f"{each // 60:02}:{each % 60:02}" for each in (minute, minute + 60))
    return {"weekdays": [number % 7 + 1], "start_time": start, "end_time": end}


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
