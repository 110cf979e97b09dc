"""The tables as they are now. `migrations/` says how they came to be; a test holds the two together."""

import sqlalchemy as sa

from bough.store.types import BigKey, Json, Moment, Words

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _text(
    name: str, *rest: sa.ForeignKey, nullable: bool = False, unique: bool = False, primary_key: bool = False
) -> sa.Column[str]:
    return sa.Column(name, sa.Text, *rest, nullable=nullable, unique=unique or None, primary_key=primary_key)


def _moment(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, Moment, nullable=nullable)


def _json(name: str) -> sa.Column[object]:
    return sa.Column(name, Json, nullable=False)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False)


def _partial(name: str, where: str, *columns: str, unique: bool = False) -> sa.Index:
    return sa.Index(name, *columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


_RECOVERABLE = "deleted_at is not null and purged_at is null"

users = sa.Table(
    "users",
    metadata,
    _text("id", primary_key=True),
    _text("email", unique=True),
    _text("name"),
    _text("last_name"),
    _text("plan"),
    _moment("created_at"),
    _moment("updated_at"),
)

organizations = sa.Table(
    "organizations",
    metadata,
    _text("id", primary_key=True),
    _text("name"),
    _text("handle", unique=True),
    _text("plan"),
    _text("personal_for", sa.ForeignKey("users.id"), nullable=True, unique=True),
    _moment("created_at"),
    _moment("updated_at"),
)

members = sa.Table(
    "members",
    metadata,
    _text("org_id", sa.ForeignKey("organizations.id"), primary_key=True),
    _text("user_id", sa.ForeignKey("users.id"), primary_key=True),
    _text("role"),
    _moment("joined_at"),
    sa.Index(None, "user_id"),
)

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", BigKey, primary_key=True, autoincrement=True),
    _text("kind"),
    _text("name"),
    _text("prefix", unique=True),
    _text("digest"),
    _text("user_id", sa.ForeignKey("users.id")),
    _text("org_id", sa.ForeignKey("organizations.id"), nullable=True),
    _text("project_id", sa.ForeignKey("projects.id"), nullable=True),
    _moment("created_at"),
    _moment("last_used_at", nullable=True),
    _text("last_used_from"),
    _moment("revoked_at", nullable=True),
    sa.Index(None, "user_id"),
    sqlite_autoincrement=True,
)

projects = sa.Table(
    "projects",
    metadata,
    _text("id", primary_key=True),
    _text("org_id", sa.ForeignKey("organizations.id")),
    _text("created_by", sa.ForeignKey("users.id")),
    _text("name"),
    _text("search_key"),
    _text("region_id"),
    sa.Column("pg_version", sa.Integer, nullable=False),
    _text("install"),
    _text("provisioner"),
    _json("settings"),
    _json("default_endpoint_settings"),
    _flag("store_passwords"),
    sa.Column("history_retention_seconds", sa.Integer, nullable=False),
    _text("creation_source"),
    _moment("created_at"),
    _moment("updated_at"),
    _moment("deleted_at", nullable=True),
    _moment("recoverable_until", nullable=True),
    _moment("purged_at", nullable=True),
    # A page is one walk along an index, whatever the size of the table.
    _partial("ix_projects_live", "deleted_at is null", "org_id", "created_at", "id"),
    _partial("ix_projects_deleted", _RECOVERABLE, "org_id", "created_at", "id"),
    _partial("ix_projects_past_recovery", _RECOVERABLE, "recoverable_until"),
)

volumes = sa.Table(
    "volumes",
    metadata,
    _text("id", primary_key=True),
    _text("project_id", sa.ForeignKey("projects.id")),
    _moment("created_at"),
    sa.Index(None, "project_id"),
)

lineages = sa.Table(
    "lineages",
    metadata,
    _text("id", primary_key=True),
    _text("project_id", sa.ForeignKey("projects.id")),
    _text("volume_id", unique=True),
    _moment("created_at"),
    sa.Index(None, "project_id"),
)

branches = sa.Table(
    "branches",
    metadata,
    _text("id", primary_key=True),
    _text("project_id", sa.ForeignKey("projects.id")),
    _text("parent_id", sa.ForeignKey("branches.id"), nullable=True),
    _text("parent_lsn", nullable=True),
    _moment("parent_timestamp", nullable=True),
    _text("name"),
    _text("search_key"),
    _text("state"),
    _moment("state_changed_at"),
    _text("volume_id", sa.ForeignKey("volumes.id"), unique=True),
    _flag("is_default"),
    _flag("is_protected"),
    _text("creation_source"),
    _text("init_source"),
    _json("annotations"),
    sa.Column("logical_size", sa.BigInteger, nullable=True),
    _text("created_by", sa.ForeignKey("users.id")),
    _moment("created_at"),
    _moment("updated_at"),
    _moment("expires_at", nullable=True),
    sa.Column("ttl_seconds", sa.Integer, nullable=True),
    _moment("last_reset_at", nullable=True),
    _moment("deleted_at", nullable=True),
    _text("deletion_method", nullable=True),
    sa.Column("written_bytes", sa.BigInteger, nullable=False),
    sa.Column("wal_position", sa.BigInteger, nullable=True),
    sa.Index(None, "project_id", "created_at"),
    sa.Index(None, "parent_id"),
    _partial("ix_branches_names", "deleted_at is null", "project_id", "name", unique=True),
    _partial("ix_branches_expiring", "expires_at is not null and deleted_at is null", "expires_at"),
)

branch_lineages = sa.Table(
    "branch_lineages",
    metadata,
    _text("branch_id", sa.ForeignKey("branches.id"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    _text("lineage_id", sa.ForeignKey("lineages.id")),
    _text("from_lsn", nullable=True),
    _text("until_lsn", nullable=True),
    sa.Index(None, "lineage_id"),
)

endpoints = sa.Table(
    "endpoints",
    metadata,
    _text("id", primary_key=True),
    _text("project_id", sa.ForeignKey("projects.id")),
    _text("branch_id", sa.ForeignKey("branches.id")),
    _text("type"),
    _text("state"),
    _text("pending_state", nullable=True),
    sa.Column("min_cu", sa.Float, nullable=False),
    sa.Column("max_cu", sa.Float, nullable=False),
    _json("settings"),
    _flag("pooler_enabled"),
    _flag("disabled"),
    _flag("passwordless_access"),
    sa.Column("suspend_timeout_seconds", sa.Integer, nullable=False),
    _text("provisioner"),
    _text("creation_source"),
    _moment("created_at"),
    _moment("updated_at"),
    _moment("last_active", nullable=True),
    _moment("started_at", nullable=True),
    _moment("suspended_at", nullable=True),
    _moment("deleted_at", nullable=True),
    _text("name", nullable=True),
    _text("volume_id", nullable=True),
    sa.Index(None, "project_id", "created_at"),
    sa.Index(None, "branch_id"),
    sa.Index(None, "state"),
    sa.Index(None, "volume_id", unique=True),
)

roles = sa.Table(
    "roles",
    metadata,
    _text("branch_id", sa.ForeignKey("branches.id"), primary_key=True),
    _text("name", primary_key=True),
    _text("verifier", nullable=True),
    _text("sealed_password", nullable=True),
    _moment("valid_until", nullable=True),
    _flag("is_protected"),
    _flag("is_wished"),
    _flag("can_login"),
    _moment("created_at"),
    _moment("updated_at"),
)

databases = sa.Table(
    "databases",
    metadata,
    sa.Column("id", BigKey, primary_key=True, autoincrement=True),
    _text("branch_id", sa.ForeignKey("branches.id")),
    _text("name"),
    _text("owner_name"),
    _flag("is_wished"),
    _moment("created_at"),
    _moment("updated_at"),
    sa.UniqueConstraint("branch_id", "name"),
    sqlite_autoincrement=True,
)

operations = sa.Table(
    "operations",
    metadata,
    _text("id", primary_key=True),
    _text("project_id", sa.ForeignKey("projects.id")),
    _text("branch_id", nullable=True),
    _text("endpoint_id", nullable=True),
    _text("action"),
    _text("status"),
    _json("parameters"),
    _text("after", nullable=True),
    _text("step"),
    sa.Column("steps_done", Words, nullable=False),
    _flag("undoing"),
    sa.Column("failures", sa.Integer, nullable=False),
    _text("error", nullable=True),
    _moment("due_at"),
    _moment("lease_until", nullable=True),
    sa.Column("fence", sa.BigInteger, nullable=False),
    _text("request_id"),
    _flag("is_urgent"),
    _moment("created_at"),
    _moment("updated_at"),
    _moment("started_at", nullable=True),
    _moment("ended_at", nullable=True),
    sa.Index(None, "project_id", "created_at", "id"),
    # The queue: only what has not ended, so that finished work costs nothing.
    _partial("ix_operations_due", "ended_at is null", "due_at"),
    _partial("ix_operations_open", "ended_at is null", "project_id"),
    _partial("ix_operations_failed", "status = 'failed'", "endpoint_id"),
)

usage = sa.Table(
    "usage",
    metadata,
    _text("endpoint_id", sa.ForeignKey("endpoints.id"), primary_key=True),
    _text("project_id", sa.ForeignKey("projects.id")),
    sa.Column("bytes_in", sa.BigInteger, nullable=False),
    sa.Column("bytes_out", sa.BigInteger, nullable=False),
    sa.Column("connections_opened", sa.BigInteger, nullable=False),
    sa.Column("active_seconds", sa.Float, nullable=False),
    sa.Column("compute_seconds", sa.Float, nullable=False),
    _moment("counted_at", nullable=True),
    sa.Column("cpu_seconds", sa.Float, nullable=False),
    _moment("cpu_run", nullable=True),
    sa.Column("cpu_run_seconds", sa.Float, nullable=False),
    sa.Index(None, "project_id"),
    _partial("ix_usage_counted", "counted_at is not null", "counted_at"),
)

gateway_workers = sa.Table(
    "gateway_workers",
    metadata,
    _text("id", primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    _moment("seen_at"),
)

idempotency = sa.Table(
    "idempotency",
    metadata,
    _text("key", primary_key=True),
    _text("fingerprint"),
    sa.Column("status", sa.Integer, nullable=True),
    _text("sealed_body", nullable=True),
    _moment("created_at"),
    sa.Index(None, "created_at"),
)
