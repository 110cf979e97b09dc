"""The first schema: people, projects, branches with volumes and lineages, operations.

The operator's user and personal organization exist from here on.
"""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from bough.store.types import BigIntegerKey, Json, SpaceSeparated, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "idempotency",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("sealed_body", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_created_at", "idempotency", ["created_at"], unique=False)
    op.create_table(
        "users",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("last_name", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("email", name="uq_users_email"),
    )
    op.create_table(
        "organizations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("handle", sa.Text(), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("personal_for", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["personal_for"], ["users.id"], name="fk_organizations_personal_for"),
        sa.PrimaryKeyConstraint("id", name="pk_organizations"),
        sa.UniqueConstraint("handle", name="uq_organizations_handle"),
        sa.UniqueConstraint("personal_for", name="uq_organizations_personal_for"),
    )
    op.create_table(
        "members",
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("joined_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_members_org_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_members_user_id"),
        sa.PrimaryKeyConstraint("org_id", "user_id", name="pk_members"),
    )
    op.create_index("ix_members_user_id", "members", ["user_id"], unique=False)
    op.create_table(
        "projects",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("search_key", sa.Text(), nullable=False),
        sa.Column("region_id", sa.Text(), nullable=False),
        sa.Column("pg_version", sa.Integer(), nullable=False),
        sa.Column("install", sa.Text(), nullable=False),
        sa.Column("provisioner", sa.Text(), nullable=False),
        sa.Column("settings", Json, nullable=False),
        sa.Column("default_endpoint_settings", Json, nullable=False),
        sa.Column("store_passwords", sa.Boolean(), nullable=False),
        sa.Column("history_retention_seconds", sa.Integer(), nullable=False),
        sa.Column("creation_source", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.Column("recoverable_until", UtcDateTime(), nullable=True),
        sa.Column("purged_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["created_by"], ["users.id"], name="fk_projects_created_by"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_projects_org_id"),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
    )
    op.create_index(
        "ix_projects_deleted",
        "projects",
        ["org_id", "created_at", "id"],
        unique=False,
        sqlite_where=sa.text("deleted_at is not null and purged_at is null"),
        postgresql_where=sa.text("deleted_at is not null and purged_at is null"),
    )
    op.create_index(
        "ix_projects_past_recovery",
        "projects",
        ["recoverable_until"],
        unique=False,
        sqlite_where=sa.text("deleted_at is not null and purged_at is null"),
        postgresql_where=sa.text("deleted_at is not null and purged_at is null"),
    )
    op.create_index(
        "ix_projects_live",
        "projects",
        ["org_id", "created_at", "id"],
        unique=False,
        sqlite_where=sa.text("deleted_at is null"),
        postgresql_where=sa.text("deleted_at is null"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", BigIntegerKey, autoincrement=True, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=True),
        sa.Column("project_id", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("last_used_at", UtcDateTime(), nullable=True),
        sa.Column("last_used_from", sa.Text(), nullable=False),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_api_keys_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_api_keys_project_id"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_api_keys_user_id"),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("prefix", name="uq_api_keys_prefix"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_api_keys_user_id", "api_keys", ["user_id"], unique=False)
    op.create_table(
        "lineages",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("volume_id", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_lineages_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_lineages"),
        sa.UniqueConstraint("volume_id", name="uq_lineages_volume_id"),
    )
    op.create_index("ix_lineages_project_id", "lineages", ["project_id"], unique=False)
    op.create_table(
        "operations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("branch_id", sa.Text(), nullable=True),
        sa.Column("endpoint_id", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("parameters", Json, nullable=False),
        sa.Column("after", sa.Text(), nullable=True),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("steps_done", SpaceSeparated(), nullable=False),
        sa.Column("undoing", sa.Boolean(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("due_at", UtcDateTime(), nullable=False),
        sa.Column("lease_until", UtcDateTime(), nullable=True),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_operations_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_operations"),
    )
    op.create_index(
        "ix_operations_due",
        "operations",
        ["due_at"],
        unique=False,
        sqlite_where=sa.text("ended_at is null"),
        postgresql_where=sa.text("ended_at is null"),
    )
    op.create_index(
        "ix_operations_open",
        "operations",
        ["project_id"],
        unique=False,
        sqlite_where=sa.text("ended_at is null"),
        postgresql_where=sa.text("ended_at is null"),
    )
    op.create_index(
        "ix_operations_project_id_created_at_id", "operations", ["project_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "volumes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_volumes_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_volumes"),
    )
    op.create_index("ix_volumes_project_id", "volumes", ["project_id"], unique=False)
    op.create_table(
        "branches",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("parent_lsn", sa.Text(), nullable=True),
        sa.Column("parent_timestamp", UtcDateTime(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("state_changed_at", UtcDateTime(), nullable=False),
        sa.Column("volume_id", sa.Text(), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.Column("is_protected", sa.Boolean(), nullable=False),
        sa.Column("creation_source", sa.Text(), nullable=False),
        sa.Column("init_source", sa.Text(), nullable=False),
        sa.Column("annotations", Json, nullable=False),
        sa.Column("logical_size", sa.BigInteger(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("last_reset_at", UtcDateTime(), nullable=True),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["created_by"], ["users.id"], name="fk_branches_created_by"),
        sa.ForeignKeyConstraint(["parent_id"], ["branches.id"], name="fk_branches_parent_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_branches_project_id"),
        sa.ForeignKeyConstraint(["volume_id"], ["volumes.id"], name="fk_branches_volume_id"),
        sa.PrimaryKeyConstraint("id", name="pk_branches"),
        sa.UniqueConstraint("volume_id", name="uq_branches_volume_id"),
    )
    op.create_index("ix_branches_parent_id", "branches", ["parent_id"], unique=False)
    op.create_index("ix_branches_project_id_created_at", "branches", ["project_id", "created_at"], unique=False)
    op.create_table(
        "branch_lineages",
        sa.Column("branch_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("lineage_id", sa.Text(), nullable=False),
        sa.Column("from_lsn", sa.Text(), nullable=True),
        sa.Column("until_lsn", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["branch_id"], ["branches.id"], name="fk_branch_lineages_branch_id"),
        sa.ForeignKeyConstraint(["lineage_id"], ["lineages.id"], name="fk_branch_lineages_lineage_id"),
        sa.PrimaryKeyConstraint("branch_id", "position", name="pk_branch_lineages"),
    )
    op.create_index("ix_branch_lineages_lineage_id", "branch_lineages", ["lineage_id"], unique=False)
    op.create_table(
        "databases",
        sa.Column("id", BigIntegerKey, autoincrement=True, nullable=False),
        sa.Column("branch_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner_name", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["branch_id"], ["branches.id"], name="fk_databases_branch_id"),
        sa.PrimaryKeyConstraint("id", name="pk_databases"),
        sa.UniqueConstraint("branch_id", "name", name="uq_databases_branch_id_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "endpoints",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("branch_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("pending_state", sa.Text(), nullable=True),
        sa.Column("min_cu", sa.Float(), nullable=False),
        sa.Column("max_cu", sa.Float(), nullable=False),
        sa.Column("settings", Json, nullable=False),
        sa.Column("pooler_enabled", sa.Boolean(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("passwordless_access", sa.Boolean(), nullable=False),
        sa.Column("suspend_timeout_seconds", sa.Integer(), nullable=False),
        sa.Column("provisioner", sa.Text(), nullable=False),
        sa.Column("creation_source", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("last_active", UtcDateTime(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("suspended_at", UtcDateTime(), nullable=True),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["branch_id"], ["branches.id"], name="fk_endpoints_branch_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_endpoints_project_id"),
        sa.PrimaryKeyConstraint("id", name="pk_endpoints"),
    )
    op.create_index("ix_endpoints_branch_id", "endpoints", ["branch_id"], unique=False)
    op.create_index("ix_endpoints_project_id_created_at", "endpoints", ["project_id", "created_at"], unique=False)
    op.create_index("ix_endpoints_state", "endpoints", ["state"], unique=False)
    op.create_table(
        "roles",
        sa.Column("branch_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("verifier", sa.Text(), nullable=False),
        sa.Column("sealed_password", sa.Text(), nullable=True),
        sa.Column("is_protected", sa.Boolean(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["branch_id"], ["branches.id"], name="fk_roles_branch_id"),
        sa.PrimaryKeyConstraint("branch_id", "name", name="pk_roles"),
    )

    _add_operator()


def _add_operator() -> None:
    now = datetime.now(UTC)
    user = "00000000-0000-4000-8000-000000000001"
    organization = "org-operator"
    person = {"id": user, "email": "operator@bough.localhost", "name": "Operator", "last_name": "", "plan": "unlimited"}
    home = {"id": organization, "name": "Operator", "handle": "operator", "plan": "unlimited", "personal_for": user}
    _insert("users", {**person, "created_at": now, "updated_at": now})
    _insert("organizations", {**home, "created_at": now, "updated_at": now})
    _insert("members", {"org_id": organization, "user_id": user, "role": "admin", "joined_at": now})


def _insert(table: str, values: dict[str, Any]) -> None:
    columns = (sa.column(name, UtcDateTime if name.endswith("_at") else sa.Text) for name in values)
    op.bulk_insert(sa.table(table, *columns), [values])


def downgrade() -> None:
    raise RuntimeError("go back by restoring the backup that was made before the upgrade")
