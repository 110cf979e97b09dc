"""People sign in; organizations have members of five roles and invitations; projects are shared and transferred;
who did what is kept.
"""

import uuid

import sqlalchemy as sa
from alembic import op

from bough.store.types import BigIntegerKey, Json, UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("users", sa.Column("password_digest", sa.Text(), nullable=True))
    _name_members()
    op.create_index("ix_api_keys_org_id", "api_keys", ["org_id"])
    op.create_index("ix_api_keys_project_id", "api_keys", ["project_id"])
    _add_invitations()
    _add_signing_in()
    _add_sharing()
    _add_transfer_requests()
    _add_audit()


def _name_members() -> None:
    op.add_column("members", sa.Column("id", sa.Text(), nullable=True))
    members = sa.table("members", sa.column("org_id"), sa.column("user_id"), sa.column("id"))
    for org_id, user_id in op.get_bind().execute(sa.select(members.c.org_id, members.c.user_id)).fetchall():
        one = sa.and_(members.c.org_id == org_id, members.c.user_id == user_id)
        op.execute(sa.update(members).where(one).values(id=str(uuid.uuid4())))
    with op.batch_alter_table("members") as table:
        table.alter_column("id", existing_type=sa.Text(), nullable=False)
        table.create_unique_constraint("uq_members_id", ["id"])


def _add_invitations() -> None:
    op.create_table(
        "invitations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("invited_by", sa.Text(), nullable=False),
        sa.Column("invited_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_invitations_org_id"),
        sa.ForeignKeyConstraint(["invited_by"], ["users.id"], name="fk_invitations_invited_by"),
        sa.PrimaryKeyConstraint("id", name="pk_invitations"),
        sa.UniqueConstraint("digest", name="uq_invitations_digest"),
        sa.UniqueConstraint("org_id", "email", name="uq_invitations_org_id_email"),
    )
    op.create_index("ix_invitations_email", "invitations", ["email"])
    op.create_index("ix_invitations_expires_at", "invitations", ["expires_at"])


def _add_signing_in() -> None:
    op.create_table(
        "sessions",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_sessions_user_id"),
        sa.PrimaryKeyConstraint("digest", name="pk_sessions"),
    )
    op.create_table(
        "links",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_links_user_id"),
        sa.PrimaryKeyConstraint("digest", name="pk_links"),
    )
    for table in ("sessions", "links"):
        op.create_index(f"ix_{table}_user_id", table, ["user_id"])
        op.create_index(f"ix_{table}_expires_at", table, ["expires_at"])
    op.create_table(
        "letters",
        sa.Column("id", BigIntegerKey, autoincrement=True, nullable=False),
        sa.Column("recipient", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("sealed_text", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("due_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_letters"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_letters_due_at", "letters", ["due_at"])


def _add_sharing() -> None:
    op.create_table(
        "permissions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("granted_by", sa.Text(), nullable=False),
        sa.Column("granted_at", UtcDateTime(), nullable=False),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_permissions_project_id"),
        sa.ForeignKeyConstraint(["granted_by"], ["users.id"], name="fk_permissions_granted_by"),
        sa.PrimaryKeyConstraint("id", name="pk_permissions"),
    )
    live = sa.text("revoked_at is null")
    op.create_index(
        "ix_permissions_live",
        "permissions",
        ["email", "project_id"],
        unique=True,
        sqlite_where=live,
        postgresql_where=live,
    )
    op.create_index("ix_permissions_project_id", "permissions", ["project_id"])
    op.create_table(
        "project_roles",
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_project_roles_user_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_project_roles_project_id"),
        sa.PrimaryKeyConstraint("user_id", "project_id", name="pk_project_roles"),
    )
    op.create_index("ix_project_roles_project_id", "project_roles", ["project_id"])


def _add_transfer_requests() -> None:
    op.create_table(
        "transfer_requests",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_transfer_requests_project_id"),
        sa.ForeignKeyConstraint(["created_by"], ["users.id"], name="fk_transfer_requests_created_by"),
        sa.PrimaryKeyConstraint("digest", name="pk_transfer_requests"),
    )
    op.create_index("ix_transfer_requests_project_id", "transfer_requests", ["project_id"])
    op.create_index("ix_transfer_requests_expires_at", "transfer_requests", ["expires_at"])


def _add_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", BigIntegerKey, autoincrement=True, nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("actor_kind", sa.Text(), nullable=False),
        sa.Column("actor_name", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("key_id", sa.BigInteger(), nullable=True),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=True),
        sa.Column("project_id", sa.Text(), nullable=True),
        sa.Column("thing", sa.Text(), nullable=False),
        sa.Column("details", Json, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    for name in ("org_id", "project_id", "user_id"):
        op.create_index(f"ix_audit_{name}_id", "audit", [name, "id"])


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
