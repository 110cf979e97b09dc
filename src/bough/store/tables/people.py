"""Tables of users, organizations, members, invitations, sessions, links, mail and API keys."""

import sqlalchemy as sa

from bough.store.tables.columns import metadata, text, timestamp
from bough.store.types import BigIntegerKey

users = sa.Table(
    "users",
    metadata,
    text("id", primary_key=True),
    text("email", unique=True),
    text("name"),
    text("last_name"),
    text("plan"),
    timestamp("created_at"),
    timestamp("updated_at"),
    text("password_digest", nullable=True),
)

organizations = sa.Table(
    "organizations",
    metadata,
    text("id", primary_key=True),
    text("name"),
    text("handle", unique=True),
    text("plan"),
    text("personal_for", sa.ForeignKey("users.id"), nullable=True, unique=True),
    timestamp("created_at"),
    timestamp("updated_at"),
    text("created_by", nullable=True),
    sa.Index(None, "created_by"),
)

members = sa.Table(
    "members",
    metadata,
    text("org_id", sa.ForeignKey("organizations.id"), primary_key=True),
    text("user_id", sa.ForeignKey("users.id"), primary_key=True),
    text("role"),
    timestamp("joined_at"),
    text("id", unique=True),
    sa.Index(None, "user_id"),
)

invitations = sa.Table(
    "invitations",
    metadata,
    text("id", primary_key=True),
    text("org_id", sa.ForeignKey("organizations.id")),
    text("email"),
    text("role"),
    text("digest", unique=True),
    text("invited_by", sa.ForeignKey("users.id")),
    timestamp("invited_at"),
    timestamp("expires_at"),
    sa.UniqueConstraint("org_id", "email"),
    sa.Index(None, "email"),
    sa.Index(None, "expires_at"),
)

sessions = sa.Table(
    "sessions",
    metadata,
    text("digest", primary_key=True),
    text("user_id", sa.ForeignKey("users.id")),
    text("address"),
    text("agent"),
    timestamp("created_at"),
    timestamp("expires_at"),
    sa.Index(None, "user_id"),
    sa.Index(None, "expires_at"),
)

links = sa.Table(
    "links",
    metadata,
    text("digest", primary_key=True),
    text("purpose"),
    text("email"),
    text("user_id", sa.ForeignKey("users.id"), nullable=True),
    timestamp("created_at"),
    timestamp("expires_at"),
    sa.Index(None, "user_id"),
    sa.Index(None, "expires_at"),
)

mail_messages = sa.Table(
    "letters",
    metadata,
    sa.Column("id", BigIntegerKey, primary_key=True, autoincrement=True),
    text("recipient", nullable=True),
    text("subject"),
    text("sealed_text"),
    sa.Column("tries", sa.Integer, nullable=False),
    timestamp("created_at"),
    timestamp("due_at"),
    sa.Index(None, "due_at"),
    sqlite_autoincrement=True,
)

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", BigIntegerKey, primary_key=True, autoincrement=True),
    text("kind"),
    text("name"),
    text("prefix", unique=True),
    text("digest"),
    text("user_id", sa.ForeignKey("users.id")),
    text("org_id", sa.ForeignKey("organizations.id"), nullable=True),
    text("project_id", sa.ForeignKey("projects.id"), nullable=True),
    timestamp("created_at"),
    timestamp("last_used_at", nullable=True),
    text("last_used_from"),
    timestamp("revoked_at", nullable=True),
    sa.Index(None, "user_id"),
    sa.Index(None, "org_id"),
    sa.Index(None, "project_id"),
    sqlite_autoincrement=True,
)
