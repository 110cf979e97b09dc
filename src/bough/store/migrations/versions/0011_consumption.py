"""The consumption history: buckets, amounts and terms. The usage of endpoints becomes what is not counted there yet."""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from bough.store.types import Microseconds, UtcDateTime

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_SECONDS = ("active_seconds", "compute_seconds", "cpu_seconds")
_BYTES = ("bytes_in", "bytes_out", "private_in", "private_out", "written_bytes")
_AMOUNTS = (
    "root_bytes",
    "child_bytes",
    "history_bytes",
    "snapshot_bytes",
    "child_branches",
    "stored_bytes",
    "logical_bytes",
)
_PEAKS = [
    f"{name}_{part}" for name in ("stored_bytes", "logical_bytes") for part in ("highest", "past_hours", "last_hour")
]


def upgrade() -> None:
    _add_buckets()
    _add_amounts_and_terms()
    _change_usage()


def _add_buckets() -> None:
    op.create_table(
        "consumption",
        sa.Column("granularity", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("branch_id", sa.Text(), nullable=False),
        sa.Column("start", Microseconds(), nullable=False),
        sa.Column("since", Microseconds(), nullable=False),
        sa.Column("until", Microseconds(), nullable=False),
        *_columns(sa.Float, *_SECONDS),
        *_columns(sa.BigInteger, *_BYTES),
        *_columns(sa.BigInteger, *_AMOUNTS),
        *_columns(sa.Float, *(f"{name}_hours" for name in _AMOUNTS)),
        *_columns(sa.BigInteger, *_PEAKS),
        sa.PrimaryKeyConstraint("granularity", "project_id", "branch_id", "start", "since", name="pk_consumption"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_consumption_granularity_start", "consumption", ["granularity", "start"])


def _add_amounts_and_terms() -> None:
    op.create_table(
        "consumption_amounts",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("branch_id", sa.Text(), nullable=False),
        sa.Column("since", Microseconds(), nullable=False),
        *_columns(sa.BigInteger, *_AMOUNTS),
        sa.PrimaryKeyConstraint("project_id", "branch_id", name="pk_consumption_amounts"),
    )
    op.create_table(
        "project_terms",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("since", Microseconds(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("is_first", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "since", name="pk_project_terms"),
    )
    op.create_index("ix_project_terms_org_id", "project_terms", ["org_id"])
    state = op.create_table(
        "consumption_state",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_consumption_state"),
    )
    op.bulk_insert(state, [{"id": 1, "began_at": datetime.now(UTC)}])


def _change_usage() -> None:
    """Keep only the traffic of the present transfer period, which the limits of plans still need."""
    for name in ("private_in", "private_out", "written_bytes"):
        op.add_column("usage", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("usage", sa.Column("is_uncounted", sa.Boolean(), nullable=False, server_default=sa.false()))
    connection = op.get_bind()
    transferred = connection.execute(
        sa.text(
            "select t.project_id, min(u.endpoint_id), sum(u.bytes_out) - max(t.bytes_before) from transfer_periods t "
            "join usage u on u.project_id = t.project_id group by t.project_id"
        )
    ).all()
    op.execute("update usage set bytes_in = 0, bytes_out = 0, active_seconds = 0, compute_seconds = 0, cpu_seconds = 0")
    for _project, endpoint, bytes_out in transferred:
        connection.execute(
            sa.text("update usage set bytes_out = :bytes_out, is_uncounted = true where endpoint_id = :endpoint"),
            {"bytes_out": max(0, int(bytes_out)), "endpoint": endpoint},
        )
    where = sa.text("is_uncounted")
    op.create_index("ix_usage_uncounted", "usage", ["project_id"], sqlite_where=where, postgresql_where=where)


def _columns(kind: Any, *names: str) -> list[sa.Column[float]]:
    return [sa.Column(name, kind(), nullable=False) for name in names]


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
