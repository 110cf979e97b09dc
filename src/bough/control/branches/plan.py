"""Requests to create or change a branch, and the checks before they are written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bough.config import Plan
from bough.control.endpoints.plan import RequestedEndpoint
from bough.domain import branch as branches
from bough.domain.branch import Branch
from bough.domain.endpoint import EndpointType
from bough.domain.history import HEAD, Point
from bough.domain.operation import OperationKind
from bough.domain.project import Project
from bough.errors import Conflict, Invalid, RuleViolation
from bough.ids import BranchId, OperationId, ProjectId
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedBranch:
    """A request for a new branch. None means that the caller omitted the value."""

    parent_id: BranchId | None = None
    name: str | None = None
    is_protected: bool = False
    expires_at: datetime | None = None
    init_source: str | None = None
    point: Point = HEAD  # in the parent's history
    is_archived: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    endpoints: tuple[tuple[EndpointType, RequestedEndpoint], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchChange:
    name: str | None = None
    is_protected: bool | None = None
    sets_expiration: bool = False
    expires_at: datetime | None = None  # with `sets_expiration`, None removes the expiration


async def check_branch_quota(rows: Rows, project_id: ProjectId, plan: Plan) -> None:
    """Check that the project may have one more branch."""
    if await rows.branches.count_in_project(project_id) >= plan.branches:
        raise RuleViolation(
            f"The project has {plan.branches} branches, the limit of its plan. Delete one, or change the plan.",
            code="BRANCHES_LIMIT_EXCEEDED",
        )


def check_requested_branch(requested: RequestedBranch) -> None:
    known = (branches.PARENT_DATA, branches.SCHEMA_ONLY)
    if requested.init_source is not None and requested.init_source not in known:
        raise Invalid(f"init_source is {requested.init_source!r}: use {' or '.join(map(repr, known))}.")
    if [kind for kind, _ in requested.endpoints].count(EndpointType.READ_WRITE) > 1:
        raise Invalid("A branch has at most one read_write endpoint. Request one, and any others as read_only.")


async def check_name_is_free(rows: Rows, project: Project, name: str) -> None:
    if await rows.branches.get_by_name(project.id, name):
        raise name_conflict(name)


def name_conflict(name: str) -> Conflict:
    return Conflict(f"The project already has a branch named {name!r}. Choose another name.")


async def find_creating_operation(rows: Rows, parent: Branch) -> OperationId | None:
    """Return the last unfinished operation that creates the parent; a copy of the parent must run after it.

    A root branch has its role and database only after its first compute has started.
    """
    kinds = {OperationKind.CREATE_ROOT_BRANCH, OperationKind.CREATE_BRANCH}
    if any(role.is_pending for role in await rows.roles.list_in_branch(parent.id)):
        kinds.add(OperationKind.START_COMPUTE)
    operations = await rows.operations.list_open(parent.project_id)
    creating = [each.id for each in operations if each.branch_id == parent.id and each.kind in kinds]
    return creating[-1] if creating else None
