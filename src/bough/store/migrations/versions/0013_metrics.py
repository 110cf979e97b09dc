"""Metrics of computes and of the machine over time."""

import sqlalchemy as sa
from alembic import op

from bough.store.types import Json

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "metric_samples",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("is_rolled_up", sa.Boolean(), nullable=False),
        sa.Column("stored_bytes", sa.Integer(), nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("shard", "at", name="pk_metric_samples"),
    )
    pending = sa.text("not is_rolled_up")
    op.create_index(
        "ix_metric_samples_pending", "metric_samples", ["at"], sqlite_where=pending, postgresql_where=pending
    )
    op.create_table(
        "metric_chunks",
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("stored_bytes", sa.Integer(), nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("series", "step", "at", name="pk_metric_chunks"),
    )
    op.create_index("ix_metric_chunks_sizes", "metric_chunks", ["step", "at", "stored_bytes"])
    op.create_table(
        "metric_counters",
        sa.Column("endpoint_id", sa.Text(), nullable=False),
        sa.Column("reading", Json, nullable=False),
        sa.PrimaryKeyConstraint("endpoint_id", name="pk_metric_counters"),
    )


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
