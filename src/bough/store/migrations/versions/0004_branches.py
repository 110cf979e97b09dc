"""Branches are found by name, expire and are measured; endpoints have names and read replicas volumes of their own;
databases, like roles, follow Postgres; computes' processors are counted.
"""

import sqlalchemy as sa
from alembic import op

from bough.store.types import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _change_branches()
    op.add_column("endpoints", sa.Column("name", sa.Text(), nullable=True))
    op.add_column("endpoints", sa.Column("volume_id", sa.Text(), nullable=True))
    op.create_index("ix_endpoints_volume_id", "endpoints", ["volume_id"], unique=True)
    op.add_column("roles", sa.Column("can_login", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.add_column("databases", sa.Column("is_wished", sa.Boolean(), nullable=False, server_default=sa.false()))
    unstarted = "select branch_id from endpoints where state = 'init'"
    op.execute(f"update databases set is_wished = true where branch_id in ({unstarted})")
    zero = sa.text("0")
    op.add_column("usage", sa.Column("cpu_seconds", sa.Float(), nullable=False, server_default=zero))
    op.add_column("usage", sa.Column("cpu_run", UtcDateTime(), nullable=True))
    op.add_column("usage", sa.Column("cpu_run_seconds", sa.Float(), nullable=False, server_default=zero))


def _change_branches() -> None:
    op.add_column("branches", sa.Column("search_key", sa.Text(), nullable=False, server_default=""))
    op.add_column("branches", sa.Column("ttl_seconds", sa.Integer(), nullable=True))
    op.add_column("branches", sa.Column("deletion_method", sa.Text(), nullable=True))
    op.add_column("branches", sa.Column("written_bytes", sa.BigInteger(), nullable=False, server_default=sa.text("0")))
    op.add_column("branches", sa.Column("wal_position", sa.BigInteger(), nullable=True))
    branches = sa.table("branches", sa.column("id"), sa.column("name"), sa.column("search_key"))
    for branch_id, name in op.get_bind().execute(sa.select(branches.c.id, branches.c.name)).fetchall():
        key = f"{name}\n{branch_id}".casefold()
        op.execute(sa.update(branches).where(branches.c.id == branch_id).values(search_key=key))
    live = sa.text("deleted_at is null")
    op.create_index(
        "ix_branches_names", "branches", ["project_id", "name"], unique=True, sqlite_where=live, postgresql_where=live
    )
    expiring = sa.text("expires_at is not null and deleted_at is null")
    op.create_index(
        "ix_branches_expiring", "branches", ["expires_at"], sqlite_where=expiring, postgresql_where=expiring
    )


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
