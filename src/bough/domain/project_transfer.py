"""A request to transfer a project to another organization, and the plan limits that it must respect."""

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
    digest: str  # of the id of the request, which is a secret
    project_id: ProjectId
    created_by: UserId
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQuota:
    """What an organization would need after a transfer, or what its plan allows."""

    projects: int  # in total
    branches: int  # of the project with the most branches
    history_seconds: int  # of the project with the longest retention


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceededLimit:
    """A limit of the receiving organization's plan that the transfer would exceed."""

    name: str
    code: str
    limit: int
    required: int

    @property
    def message(self) -> str:
        return (
            f"The transfer needs {self.name} of {self.required}, and the plan of the organization allows {self.limit}."
        )


_LIMITS = (  # field of TransferQuota, its public name, the error code
    ("projects", "projects", "PROJECTS_LIMIT_EXCEEDED"),
    ("branches", "branches_per_project", "BRANCHES_LIMIT_EXCEEDED"),
    ("history_seconds", "history_retention_seconds", "HISTORY_RETENTION_LIMIT_EXCEEDED"),
)


def find_exceeded_limits(*, required: TransferQuota, allowed: TransferQuota) -> Iterator[ExceededLimit]:
    for field, name, code in _LIMITS:
        needed, limit = getattr(required, field), getattr(allowed, field)
        if needed > limit:
            yield ExceededLimit(name=name, code=code, limit=limit, required=needed)


def check_ttl(seconds: int) -> None:
    if not 0 < seconds <= MAX_TTL_SECONDS:
        raise Invalid(f"ttl_seconds is {seconds}: use 1 to {MAX_TTL_SECONDS}.")
