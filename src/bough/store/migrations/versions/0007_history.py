"""History: how far back branches can go, what became of their volumes, snapshots and their schedules."""

import sqlalchemy as sa
from alembic import op

from bough.store.types import Json, UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("volumes", sa.Column("retired_at", UtcDateTime(), nullable=True))
    _add_index("ix_volumes_retired", "volumes", ["retired_at"], "retired_at is not null")
    # Of branches that were made before there was a history none is known until a first base is taken.
    op.add_column("lineages", sa.Column("began_at", UtcDateTime(), nullable=True))
    op.add_column("lineages", sa.Column("began_lsn", sa.Text(), nullable=True))
    op.add_column("lineages", sa.Column("history_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("branch_lineages", sa.Column("from_at", UtcDateTime(), nullable=True))
    op.add_column("branch_lineages", sa.Column("until_at", UtcDateTime(), nullable=True))
    for name in ("recoverable_until", "finalized_at"):
        op.add_column("branches", sa.Column(name, UtcDateTime(), nullable=True))
    for name in ("restored_from", "restored_for", "replaced_by"):
        op.add_column("branches", sa.Column(name, sa.Text(), nullable=True))
    _add_index("ix_branches_recoverable", "branches", ["recoverable_until"], "recoverable_until is not null")
    _add_snapshots()


def _add_index(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    op.create_index(name, table, columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _add_snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("branch_id", sa.Text(), nullable=False),
        sa.Column("volume_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("is_manual", sa.Boolean(), nullable=False),
        sa.Column("lsn", sa.Text(), nullable=True),
        sa.Column("at", UtcDateTime(), nullable=True),
        sa.Column("full_bytes", sa.BigInteger(), nullable=True),
        sa.Column("own_bytes", sa.BigInteger(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_snapshots_project_id"),
        sa.ForeignKeyConstraint(["volume_id"], ["volumes.id"], name="fk_snapshots_volume_id"),
        sa.PrimaryKeyConstraint("id", name="pk_snapshots"),
        sa.UniqueConstraint("volume_id", name="uq_snapshots_volume_id"),
    )
    _add_index("ix_snapshots_names", "snapshots", ["project_id", "name"], "deleted_at is null", unique=True)
    _add_index("ix_snapshots_expiring", "snapshots", ["expires_at"], "expires_at is not null and deleted_at is null")
    op.create_table(
        "snapshot_schedules",
        sa.Column("branch_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("items", Json, nullable=False),
        sa.Column("next_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["branch_id"], ["branches.id"], name="fk_snapshot_schedules_branch_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_snapshot_schedules_project_id"),
        sa.PrimaryKeyConstraint("branch_id", name="pk_snapshot_schedules"),
    )
    op.create_index("ix_snapshot_schedules_project_id", "snapshot_schedules", ["project_id"])
    op.create_index("ix_snapshot_schedules_next_at", "snapshot_schedules", ["next_at"])


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
