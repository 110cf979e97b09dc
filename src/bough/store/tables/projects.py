"""Tables of projects, their permissions and their contents."""

import sqlalchemy as sa

from bough.store.tables.columns import boolean, json, metadata, partial_index, text, timestamp
from bough.store.types import BigIntegerKey

_RECOVERABLE = "deleted_at is not null and purged_at is null"

projects = sa.Table(
    "projects",
    metadata,
    text("id", primary_key=True),
    text("org_id", sa.ForeignKey("organizations.id")),
    text("created_by", sa.ForeignKey("users.id")),
    text("name"),
    text("search_key"),
    text("region_id"),
    sa.Column("pg_version", sa.Integer, nullable=False),
    text("install"),
    text("provisioner"),
    json("settings"),
    json("default_endpoint_settings"),
    boolean("store_passwords"),
    sa.Column("history_retention_seconds", sa.Integer, nullable=False),
    text("creation_source"),
    timestamp("created_at"),
    timestamp("updated_at"),
    timestamp("deleted_at", nullable=True),
    timestamp("recoverable_until", nullable=True),
    timestamp("purged_at", nullable=True),
    # One index serves each page, whatever the size of the table.
    partial_index("ix_projects_live", "deleted_at is null", "org_id", "created_at", "id"),
    partial_index("ix_projects_deleted", _RECOVERABLE, "org_id", "created_at", "id"),
    partial_index("ix_projects_past_recovery", _RECOVERABLE, "recoverable_until"),
)

permissions = sa.Table(
    "permissions",
    metadata,
    text("id", primary_key=True),
    text("project_id", sa.ForeignKey("projects.id")),
    text("email"),
    text("granted_by", sa.ForeignKey("users.id")),
    timestamp("granted_at"),
    timestamp("revoked_at", nullable=True),
    partial_index("ix_permissions_live", "revoked_at is null", "email", "project_id", unique=True),
    sa.Index(None, "project_id"),
)

project_roles = sa.Table(
    "project_roles",
    metadata,
    text("user_id", sa.ForeignKey("users.id"), primary_key=True),
    text("project_id", sa.ForeignKey("projects.id"), primary_key=True),
    text("role"),
    sa.Index(None, "project_id"),
)

transfer_requests = sa.Table(
    "transfer_requests",
    metadata,
    text("digest", primary_key=True),
    text("project_id", sa.ForeignKey("projects.id")),
    text("created_by", sa.ForeignKey("users.id")),
    timestamp("created_at"),
    timestamp("expires_at"),
    sa.Index(None, "project_id"),
    sa.Index(None, "expires_at"),
)

# The id of an instant database is a secret: the table stores its digest for lookups and the id itself encrypted.
instant_databases = sa.Table(
    "instant_databases",
    metadata,
    text("digest", primary_key=True),
    text("sealed_id"),
    text("project_id", sa.ForeignKey("projects.id"), unique=True),
    text("ref"),
    timestamp("created_at"),
    timestamp("updated_at"),
    timestamp("expires_at"),
    text("claiming_by", sa.ForeignKey("users.id"), nullable=True),
    timestamp("claiming_until", nullable=True),
    text("claimed_by", sa.ForeignKey("users.id"), nullable=True),
    timestamp("claimed_at", nullable=True),
    partial_index("ix_instant_databases_unclaimed", "claimed_at is null", "expires_at"),
    sa.Index(None, "created_at"),
)

# The databases that run but have no id yet. The table stays small, so that finding one is cheap.
prepared_databases = sa.Table(
    "prepared_databases",
    metadata,
    text("project_id", sa.ForeignKey("projects.id"), primary_key=True),
)

# Only of projects that have reached a limit, or whose owner was warned of one.
project_limits = sa.Table(
    "project_limits",
    metadata,
    text("project_id", sa.ForeignKey("projects.id"), primary_key=True),
    text("reached", nullable=True),
    json("warnings"),
    timestamp("period_start"),  # of the warnings
    partial_index("ix_project_limits_reached", "reached is not null", "project_id"),
)

endpoints = sa.Table(
    "endpoints",
    metadata,
    text("id", primary_key=True),
    text("project_id", sa.ForeignKey("projects.id")),
    text("branch_id", sa.ForeignKey("branches.id")),
    text("type"),
    text("state"),
    text("pending_state", nullable=True),
    sa.Column("min_cu", sa.Float, nullable=False),
    sa.Column("max_cu", sa.Float, nullable=False),
    json("settings"),
    boolean("pooler_enabled"),
    boolean("disabled"),
    boolean("passwordless_access"),
    sa.Column("suspend_timeout_seconds", sa.Integer, nullable=False),
    text("provisioner"),
    text("creation_source"),
    timestamp("created_at"),
    timestamp("updated_at"),
    timestamp("last_active", nullable=True),
    timestamp("started_at", nullable=True),
    timestamp("suspended_at", nullable=True),
    timestamp("deleted_at", nullable=True),
    text("name", nullable=True),
    text("volume_id", nullable=True),
    sa.Index(None, "project_id", "created_at"),
    sa.Index(None, "branch_id"),
    sa.Index(None, "state"),
    sa.Index(None, "volume_id", unique=True),
)

roles = sa.Table(
    "roles",
    metadata,
    text("branch_id", sa.ForeignKey("branches.id"), primary_key=True),
    text("name", primary_key=True),
    text("verifier", nullable=True),
    text("sealed_password", nullable=True),
    timestamp("valid_until", nullable=True),
    boolean("is_protected"),
    boolean("is_wished"),
    boolean("can_login"),
    timestamp("created_at"),
    timestamp("updated_at"),
)

databases = sa.Table(
    "databases",
    metadata,
    sa.Column("id", BigIntegerKey, primary_key=True, autoincrement=True),
    text("branch_id", sa.ForeignKey("branches.id")),
    text("name"),
    text("owner_name"),
    boolean("is_wished"),
    timestamp("created_at"),
    timestamp("updated_at"),
    sa.UniqueConstraint("branch_id", "name"),
    sqlite_autoincrement=True,
)
