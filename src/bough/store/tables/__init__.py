"""The current tables. A test checks that `migrations/` produces exactly these."""

from bough.store.tables.branches import branch_lineages, branches, lineages, snapshot_schedules, snapshots, volumes
from bough.store.tables.columns import metadata
from bough.store.tables.people import (
    api_keys,
    invitations,
    links,
    mail_messages,
    members,
    organizations,
    sessions,
    users,
)
from bough.store.tables.projects import (
    databases,
    endpoints,
    instant_databases,
    permissions,
    prepared_databases,
    project_roles,
    projects,
    roles,
    transfer_periods,
    transfer_requests,
)
from bough.store.tables.work import audit, gateway_workers, idempotency, maintenance, operations, usage

__all__ = [
    "api_keys",
    "audit",
    "branch_lineages",
    "branches",
    "databases",
    "endpoints",
    "gateway_workers",
    "idempotency",
    "instant_databases",
    "invitations",
    "lineages",
    "links",
    "mail_messages",
    "maintenance",
    "members",
    "metadata",
    "operations",
    "organizations",
    "permissions",
    "prepared_databases",
    "project_roles",
    "projects",
    "roles",
    "sessions",
    "snapshot_schedules",
    "snapshots",
    "transfer_periods",
    "transfer_requests",
    "usage",
    "users",
    "volumes",
]
