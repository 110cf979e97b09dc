"""Roles follow Postgres, endpoints have usage, and operations that somebody waits for at the door are urgent.

Roles of endpoints that never started were not told to Postgres yet, so they are wishes.
"""

import sqlalchemy as sa
from alembic import op

from bough.store.types import UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("roles") as roles:
        roles.alter_column("verifier", existing_type=sa.Text(), nullable=True)
        roles.add_column(sa.Column("valid_until", UtcDateTime(), nullable=True))
        roles.add_column(sa.Column("is_wished", sa.Boolean(), nullable=False, server_default=sa.false()))
    unstarted = "select branch_id from endpoints where state = 'init'"
    op.execute(f"update roles set is_wished = true where branch_id in ({unstarted})")
    op.add_column("operations", sa.Column("is_urgent", sa.Boolean(), nullable=False, server_default=sa.false()))
    _add_usage()
    op.create_table(
        "gateway_workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_gateway_workers"),
    )


def _add_usage() -> None:
    op.create_table(
        "usage",
        sa.Column("endpoint_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("bytes_in", sa.BigInteger(), nullable=False),
        sa.Column("bytes_out", sa.BigInteger(), nullable=False),
        sa.Column("connections_opened", sa.BigInteger(), nullable=False),
        sa.Column("active_seconds", sa.Float(), nullable=False),
        sa.Column("compute_seconds", sa.Float(), nullable=False),
        sa.Column("counted_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["endpoint_id"], ["endpoints.id"], name="fk_usage_endpoint_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_usage_project_id"),
        sa.PrimaryKeyConstraint("endpoint_id", name="pk_usage"),
    )
    op.create_index("ix_usage_project_id", "usage", ["project_id"], unique=False)
    counted = sa.text("counted_at is not null")
    op.create_index("ix_usage_counted", "usage", ["counted_at"], sqlite_where=counted, postgresql_where=counted)
    op.execute(
        "insert into usage (endpoint_id, project_id, bytes_in, bytes_out, connections_opened, active_seconds, "
        "compute_seconds) select id, project_id, 0, 0, 0, 0, 0 from endpoints"
    )


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
