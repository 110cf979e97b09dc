"""An offer to take over a project, for whoever knows its id; and what a plan must have room for."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from bough.errors import Invalid
from bough.ids import ProjectId, UserId

DEFAULT_TTL_SECONDS = 86_400
MAX_TTL_SECONDS = 30 * 86_400
MAX_PROJECTS = 400  # in one call


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRequest:
    digest: str  # of the request's id, which is a secret
    project_id: ProjectId
    created_by: UserId
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQuota:
    """What an organization would need with the projects that come, or what its plan allows."""

    projects: int  # all of them, with those it has
    branches: int  # of the project that has most
    history_seconds: int  # of the project that keeps most


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceededLimit:
    """A limit of the new owner's plan that would be exceeded."""

    name: str
    code: str
    limit: int
    required: int

    @property
    def message(self) -> str:
        return f"It would take {self.name} of {self.required}, and the organization's plan allows {self.limit}."


_LIMITS = (  # field of Room, its name for clients, the code of its refusal
    ("projects", "projects", "PROJECTS_LIMIT_EXCEEDED"),
    ("branches", "branches_per_project", "BRANCHES_LIMIT_EXCEEDED"),
    ("history_seconds", "history_retention_seconds", "HISTORY_RETENTION_LIMIT_EXCEEDED"),
)


def find_exceeded_limits(*, required: TransferQuota, allowed: TransferQuota) -> Iterator[ExceededLimit]:
    for field, name, code in _LIMITS:
        wanted, limit = getattr(required, field), getattr(allowed, field)
        if wanted > limit:
            yield ExceededLimit(name=name, code=code, limit=limit, required=wanted)


def check_ttl(seconds: int) -> None:
    if not 0 < seconds <= MAX_TTL_SECONDS:
        raise Invalid(f"ttl_seconds is {seconds}: use 1 to {MAX_TTL_SECONDS}.")
