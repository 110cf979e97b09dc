"""The current tables. A test checks that `migrations/` produces exactly these."""

from bough.store.tables.branches import branch_lineages, branches, lineages, snapshot_schedules, snapshots, volumes
from bough.store.tables.columns import metadata
from bough.store.tables.consumption import consumption, consumption_amounts, consumption_state, project_terms
from bough.store.tables.metrics import metric_chunks, metric_counters, metric_samples
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
    project_limits,
    project_roles,
    projects,
    roles,
    transfer_requests,
)
from bough.store.tables.work import audit, gateway_workers, idempotency, maintenance, operations, usage

__all__ = [
    "api_keys",
    "audit",
    "branch_lineages",
    "branches",
    "consumption",
    "consumption_amounts",
    "consumption_state",
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
    "metric_chunks",
    "metric_counters",
    "metric_samples",
    "operations",
    "organizations",
    "permissions",
    "prepared_databases",
    "project_limits",
    "project_roles",
    "project_terms",
    "projects",
    "roles",
    "sessions",
    "snapshot_schedules",
    "snapshots",
    "transfer_requests",
    "usage",
    "users",
    "volumes",
]
