"""Responses that contain projects."""

from datetime import datetime
from typing import Any, Literal

from bough import clock
from bough.api.schemas import View
from bough.api.v2.users import subscription_type
from bough.config import Plan
from bough.domain.calendar_month import start_of_month, start_of_next_month
from bough.domain.endpoint import EndpointHosts
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.rights import AccessLevel
from bough.domain.user import User
from bough.store.project_pages import ProjectWithUsage

MEBIBYTE = 1024 * 1024


class _ProjectFields(View):
    """Fields of a project, alone and in a list."""

    id: str
    platform_id: str
    region_id: str
    name: str
    provisioner: str
    default_endpoint_settings: dict[str, Any]
    settings: dict[str, Any]
    pg_version: int
    proxy_host: str
    branch_logical_size_limit: int
    branch_logical_size_limit_bytes: int
    store_passwords: bool
    creation_source: str
    history_retention_seconds: int
    created_at: datetime
    updated_at: datetime
    synthetic_storage_size: int | None
    quota_reset_at: datetime
    owner_id: str
    compute_last_active_at: datetime | None
    org_id: str
    cpu_used_sec: int
    effective_project_permission: Literal["VIEWER", "EDITOR", "ADMIN"]


class ProjectListItem(_ProjectFields):
    active_time: int
    org_name: str | None
    deleted_at: datetime | None
    recoverable_until: datetime | None

    @classmethod
    def of(
        cls, entry: ProjectWithUsage, organization: Organization, plan: Plan, hosts: EndpointHosts, level: AccessLevel
    ) -> "ProjectListItem":
        return cls(
            **_project_fields(entry, plan, hosts, level),
            active_time=entry.usage.active_seconds,
            org_name=organization.name,
            deleted_at=entry.project.deleted_at,
            recoverable_until=entry.project.recoverable_until,
        )


class ProjectOwner(View):
    email: str
    name: str
    branches_limit: int
    subscription_type: Literal["UNKNOWN", "free_v2"]


class ProjectView(_ProjectFields):
    data_storage_bytes_hour: int
    data_transfer_bytes: int
    written_data_bytes: int
    compute_time_seconds: int
    active_time_seconds: int
    consumption_period_start: datetime
    consumption_period_end: datetime
    maintenance_scheduled_for: datetime | None
    owner: ProjectOwner | None

    @classmethod
    def of(
        cls,
        entry: ProjectWithUsage,
        plan: Plan,
        hosts: EndpointHosts,
        level: AccessLevel,
        owner: ProjectOwner | None = None,
    ) -> "ProjectView":
        now = clock.now()
        return cls(
            **_project_fields(entry, plan, hosts, level),
            data_storage_bytes_hour=entry.usage.stored_byte_hours,
            data_transfer_bytes=entry.usage.bytes_out,
            written_data_bytes=entry.usage.written_bytes,
            compute_time_seconds=entry.usage.compute_seconds,
            active_time_seconds=entry.usage.active_seconds,
            consumption_period_start=start_of_month(now),
            consumption_period_end=start_of_next_month(now),
            maintenance_scheduled_for=entry.maintenance_scheduled_for,
            owner=owner,
        )


def to_project_owner(user: User, organization: Organization, plan: Plan) -> ProjectOwner:
    return ProjectOwner(
        email=user.email,
        name=organization.name,
        branches_limit=plan.branches,
        subscription_type=subscription_type(organization.plan),
    )


def with_empty_usage(project: Project) -> ProjectWithUsage:
    return ProjectWithUsage(project, None, None)


def _project_fields(entry: ProjectWithUsage, plan: Plan, hosts: EndpointHosts, level: AccessLevel) -> dict[str, Any]:
    project = entry.project
    return {
        "id": project.id,
        "platform_id": project.region_id.split("-", 1)[0],
        "region_id": project.region_id,
        "name": project.name,
        "provisioner": project.provisioner,
        "default_endpoint_settings": dict(project.default_endpoint_settings),
        "settings": dict(project.settings),
        "pg_version": project.pg_version,
        "proxy_host": hosts.proxy_host(project.region_id),
        "branch_logical_size_limit": plan.storage_bytes // MEBIBYTE,
        "branch_logical_size_limit_bytes": plan.storage_bytes,
        "store_passwords": project.store_passwords,
        "creation_source": project.creation_source,
        "history_retention_seconds": project.history_retention_seconds,
        "created_at": project.created_at,
        "updated_at": project.updated_at,
        "synthetic_storage_size": entry.storage_bytes,
        "quota_reset_at": start_of_next_month(clock.now()),
        "owner_id": project.org_id,
        "compute_last_active_at": entry.last_active,
        "org_id": project.org_id,
        "cpu_used_sec": entry.usage.cpu_seconds,
        "effective_project_permission": level.name,
    }
