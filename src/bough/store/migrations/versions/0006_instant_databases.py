"""Instant databases, which nobody owns until their claim; branches that are full, and what projects transferred."""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from bough.store.types import UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

UNCLAIMED = "org-unclaimed-databases"


def upgrade() -> None:
    _add_organization()
    _add_instant_databases()
    op.add_column("branches", sa.Column("fullness", sa.Text(), nullable=False, server_default="room"))
    op.add_column("branches", sa.Column("stored_bytes", sa.BigInteger(), nullable=True))
    _add_index("ix_branches_full", "branches", "project_id", "fullness <> 'room'")
    op.create_table(
        "transfer_periods",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.Column("bytes_before", sa.BigInteger(), nullable=False),
        sa.Column("is_over", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_transfer_periods_project_id"),
        sa.PrimaryKeyConstraint("project_id", name="pk_transfer_periods"),
    )
    _add_index("ix_transfer_periods_over", "transfer_periods", "project_id", "is_over")


def _add_index(name: str, table: str, column: str, where: str) -> None:
    """Of the few rows that a task asks for again and again."""
    op.create_index(name, table, [column], sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _add_organization() -> None:
    """Whose projects instant databases are until they are claimed. It has no members."""
    now = datetime.now(UTC)
    organizations = sa.table(
        "organizations",
        sa.column("id"),
        sa.column("name"),
        sa.column("handle"),
        sa.column("plan"),
        sa.column("personal_for"),
        sa.column("created_at", UtcDateTime()),
        sa.column("updated_at", UtcDateTime()),
    )
    op.bulk_insert(
        organizations,
        [
            {
                "id": UNCLAIMED,
                "name": "Unclaimed databases",
                "handle": UNCLAIMED,
                "plan": "unclaimed",
                "personal_for": None,
                "created_at": now,
                "updated_at": now,
            }
        ],
    )


def _add_instant_databases() -> None:
    op.create_table(
        "instant_databases",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("sealed_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("ref", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("claiming_by", sa.Text(), nullable=True),
        sa.Column("claiming_until", UtcDateTime(), nullable=True),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("claimed_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_instant_databases_project_id"),
        sa.ForeignKeyConstraint(["claiming_by"], ["users.id"], name="fk_instant_databases_claiming_by"),
        sa.ForeignKeyConstraint(["claimed_by"], ["users.id"], name="fk_instant_databases_claimed_by"),
        sa.PrimaryKeyConstraint("digest", name="pk_instant_databases"),
        sa.UniqueConstraint("project_id", name="uq_instant_databases_project_id"),
    )
    unclaimed = sa.text("claimed_at is null")
    op.create_index(
        "ix_instant_databases_unclaimed",
        "instant_databases",
        ["expires_at"],
        sqlite_where=unclaimed,
        postgresql_where=unclaimed,
    )
    op.create_index("ix_instant_databases_created_at", "instant_databases", ["created_at"])
    op.create_table(
        "prepared_databases",
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_prepared_databases_project_id"),
        sa.PrimaryKeyConstraint("project_id", name="pk_prepared_databases"),
    )


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
