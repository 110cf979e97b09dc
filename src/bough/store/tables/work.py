"""Tables of operations, usage, idempotency records and the audit log."""

import sqlalchemy as sa

from bough.store.tables.columns import boolean, json, metadata, partial_index, text, timestamp
from bough.store.types import BigIntegerKey, SpaceSeparated

operations = sa.Table(
    "operations",
    metadata,
    text("id", primary_key=True),
    text("project_id", sa.ForeignKey("projects.id")),
    text("branch_id", nullable=True),
    text("endpoint_id", nullable=True),
    text("action"),
    text("status"),
    json("parameters"),
    text("after", nullable=True),
    text("step"),
    sa.Column("steps_done", SpaceSeparated, nullable=False),
    boolean("undoing"),
    sa.Column("failures", sa.Integer, nullable=False),
    text("error", nullable=True),
    timestamp("due_at"),
    timestamp("lease_until", nullable=True),
    sa.Column("fence", sa.BigInteger, nullable=False),
    text("request_id"),
    boolean("is_urgent"),
    timestamp("created_at"),
    timestamp("updated_at"),
    timestamp("started_at", nullable=True),
    timestamp("ended_at", nullable=True),
    sa.Column("crashes", sa.Integer, nullable=False, server_default="0"),
    sa.Index(None, "project_id", "created_at", "id"),
    # The queue indexes contain only open operations, so that finished ones cost nothing.
    partial_index("ix_operations_due", "ended_at is null", "due_at"),
    partial_index("ix_operations_open", "ended_at is null", "project_id"),
    partial_index("ix_operations_failed", "status = 'failed'", "endpoint_id"),
)

usage = sa.Table(
    "usage",
    metadata,
    text("endpoint_id", sa.ForeignKey("endpoints.id"), primary_key=True),
    text("project_id", sa.ForeignKey("projects.id")),
    sa.Column("bytes_in", sa.BigInteger, nullable=False),
    sa.Column("bytes_out", sa.BigInteger, nullable=False),
    sa.Column("connections_opened", sa.BigInteger, nullable=False),
    sa.Column("active_seconds", sa.Float, nullable=False),
    sa.Column("compute_seconds", sa.Float, nullable=False),
    timestamp("counted_at", nullable=True),
    sa.Column("cpu_seconds", sa.Float, nullable=False),
    timestamp("cpu_run", nullable=True),
    sa.Column("cpu_run_seconds", sa.Float, nullable=False),
    sa.Column("private_in", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("private_out", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("written_bytes", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("is_uncounted", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index(None, "project_id"),
    partial_index("ix_usage_uncounted", "is_uncounted", "project_id"),
    partial_index("ix_usage_counted", "counted_at is not null", "counted_at"),
)

gateway_workers = sa.Table(
    "gateway_workers",
    metadata,
    text("id", primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    timestamp("seen_at"),
)

idempotency = sa.Table(
    "idempotency",
    metadata,
    text("key", primary_key=True),
    text("fingerprint"),
    sa.Column("status", sa.Integer, nullable=True),
    text("sealed_body", nullable=True),
    timestamp("created_at"),
    sa.Index(None, "created_at"),
)

# Audit entries outlive the objects that they describe, so the table has no foreign keys.
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("id", BigIntegerKey, primary_key=True, autoincrement=True),
    timestamp("at"),
    text("actor_kind"),
    text("actor_name"),
    text("user_id", nullable=True),
    sa.Column("key_id", sa.BigInteger, nullable=True),
    text("address"),
    text("request_id"),
    text("action"),
    text("org_id", nullable=True),
    text("project_id", nullable=True),
    text("thing"),
    json("details"),
    sa.Index(None, "at"),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "project_id", "id"),
    sa.Index(None, "user_id", "id"),
    sqlite_autoincrement=True,
)

# A project has a row once a restart of its computes was planned; `scheduled_for` is set while one is.
maintenance = sa.Table(
    "maintenance",
    metadata,
    text("project_id", sa.ForeignKey("projects.id"), primary_key=True),
    timestamp("scheduled_for", nullable=True),
    timestamp("ends_at", nullable=True),
    timestamp("noticed_at"),
    sa.Column("missed_windows", sa.Integer, nullable=False),
    json("reasons"),
    json("outcome"),
    partial_index("ix_maintenance_planned", "scheduled_for is not null", "scheduled_for"),
)
