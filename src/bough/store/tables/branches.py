"""Branches, the volumes that hold their data, their history, and snapshots."""

import sqlalchemy as sa

from bough.store.tables.columns import flag, json, metadata, moment, partial, text

volumes = sa.Table(
    "volumes",
    metadata,
    text("id", primary_key=True),
    text("project_id", sa.ForeignKey("projects.id")),
    moment("created_at"),
    moment("retired_at", nullable=True),
    sa.Index(None, "project_id"),
    partial("ix_volumes_retired", "retired_at is not null", "retired_at"),
)

lineages = sa.Table(
    "lineages",
    metadata,
    text("id", primary_key=True),
    text("project_id", sa.ForeignKey("projects.id")),
    text("volume_id", unique=True),
    moment("created_at"),
    moment("began_at", nullable=True),
    text("began_lsn", nullable=True),
    sa.Column("history_bytes", sa.BigInteger, nullable=False),
    sa.Index(None, "project_id"),
)

branches = sa.Table(
    "branches",
    metadata,
    text("id", primary_key=True),
    text("project_id", sa.ForeignKey("projects.id")),
    text("parent_id", sa.ForeignKey("branches.id"), nullable=True),
    text("parent_lsn", nullable=True),
    moment("parent_timestamp", nullable=True),
    text("name"),
    text("search_key"),
    text("state"),
    moment("state_changed_at"),
    text("volume_id", sa.ForeignKey("volumes.id"), unique=True),
    flag("is_default"),
    flag("is_protected"),
    text("creation_source"),
    text("init_source"),
    json("annotations"),
    sa.Column("logical_size", sa.BigInteger, nullable=True),
    text("created_by", sa.ForeignKey("users.id")),
    moment("created_at"),
    moment("updated_at"),
    moment("expires_at", nullable=True),
    sa.Column("ttl_seconds", sa.Integer, nullable=True),
    moment("last_reset_at", nullable=True),
    moment("deleted_at", nullable=True),
    text("deletion_method", nullable=True),
    moment("recoverable_until", nullable=True),
    text("restored_from", nullable=True),
    text("restored_for", nullable=True),
    text("replaced_by", nullable=True),
    sa.Column("written_bytes", sa.BigInteger, nullable=False),
    sa.Column("wal_position", sa.BigInteger, nullable=True),
    text("fullness"),
    sa.Column("stored_bytes", sa.BigInteger, nullable=True),
    sa.Index(None, "project_id", "created_at"),
    sa.Index(None, "parent_id"),
    partial("ix_branches_names", "deleted_at is null", "project_id", "name", unique=True),
    partial("ix_branches_full", "fullness <> 'room'", "project_id"),
    partial("ix_branches_expiring", "expires_at is not null and deleted_at is null", "expires_at"),
    partial("ix_branches_recoverable", "recoverable_until is not null", "recoverable_until"),
)

branch_lineages = sa.Table(
    "branch_lineages",
    metadata,
    text("branch_id", sa.ForeignKey("branches.id"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    text("lineage_id", sa.ForeignKey("lineages.id")),
    text("from_lsn", nullable=True),
    text("until_lsn", nullable=True),
    moment("from_at", nullable=True),
    moment("until_at", nullable=True),
    sa.Index(None, "lineage_id"),
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    text("id", primary_key=True),
    text("project_id", sa.ForeignKey("projects.id")),
    text("branch_id"),
    text("volume_id", sa.ForeignKey("volumes.id"), unique=True),
    text("name"),
    text("state"),
    flag("is_manual"),
    text("lsn", nullable=True),
    moment("at", nullable=True),
    sa.Column("full_bytes", sa.BigInteger, nullable=True),
    sa.Column("own_bytes", sa.BigInteger, nullable=True),
    moment("created_at"),
    moment("updated_at"),
    moment("expires_at", nullable=True),
    moment("deleted_at", nullable=True),
    partial("ix_snapshots_names", "deleted_at is null", "project_id", "name", unique=True),
    partial("ix_snapshots_expiring", "expires_at is not null and deleted_at is null", "expires_at"),
)

snapshot_schedules = sa.Table(
    "snapshot_schedules",
    metadata,
    text("branch_id", sa.ForeignKey("branches.id"), primary_key=True),
    text("project_id", sa.ForeignKey("projects.id")),
    json("items"),
    moment("next_at"),
    moment("updated_at"),
    sa.Index(None, "project_id"),
    sa.Index(None, "next_at"),
)
