"""A project: a Postgres version, a tree of branches, settings and limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bough.domain import audit_level
from bough.domain.private_networks import BLOCK_PRIVATE, BLOCK_PUBLIC
from bough.errors import Invalid, NotFound
from bough.ids import OrganizationId, ProjectId, UserId

MAX_HISTORY_RETENTION_SECONDS = 2_592_000
SUSPEND_DEFAULT = 0  # the platform's default
SUSPEND_NEVER = -1
MIN_SUSPEND_SECONDS = 60
MAX_SUSPEND_SECONDS = 604_800
ACCESS_SETTINGS = ("allowed_ips", BLOCK_PUBLIC, BLOCK_PRIVATE, audit_level.SETTINGS_KEY)  # those that gateways apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    id: ProjectId
    org_id: OrganizationId
    created_by: UserId
    name: str
    region_id: str
    pg_version: int
    install: str  # the flavour and major version of Postgres that it is pinned to, such as debian-17
    provisioner: str
    settings: Mapping[str, Any]
    default_endpoint_settings: Mapping[str, Any]
    store_passwords: bool
    history_retention_seconds: int
    creation_source: str
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None
    recoverable_until: datetime | None = None
    purged_at: datetime | None = None

    @property
    def has_logical_replication(self) -> bool:
        return bool(self.settings.get("enable_logical_replication"))

    def is_recoverable(self, now: datetime) -> bool:
        return self.deleted_at is not None and self.recoverable_until is not None and now < self.recoverable_until


def recovery_deadline(now: datetime, seconds: int) -> datetime:
    return now + timedelta(seconds=seconds)


def check_recoverable(project: Project, now: datetime) -> None:
    if project.deleted_at is None:
        raise Invalid("The project is not deleted, so there is nothing to recover.")
    if not project.is_recoverable(now):
        raise NotFound.resource("project")


def check_autoscaling(minimum: float, maximum: float, largest: float) -> None:
    if minimum > maximum:
        raise Invalid(f"autoscaling_limit_min_cu ({minimum:g}) is larger than autoscaling_limit_max_cu ({maximum:g}).")
    if maximum > largest:
        raise Invalid(f"autoscaling_limit_max_cu ({maximum:g}) exceeds the {largest:g} CU that the plan allows.")


def check_suspend_timeout(seconds: int) -> None:
    if seconds in (SUSPEND_DEFAULT, SUSPEND_NEVER) or MIN_SUSPEND_SECONDS <= seconds <= MAX_SUSPEND_SECONDS:
        return
    raise Invalid(
        f"suspend_timeout_seconds is {seconds}: use 0 for the default, -1 for never, "
        f"or {MIN_SUSPEND_SECONDS} to {MAX_SUSPEND_SECONDS}."
    )


def check_settings_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    if before.get("enable_logical_replication") and after.get("enable_logical_replication") is False:
        raise Invalid("enable_logical_replication cannot be turned off once it is on.")
