"""What a caller may ask of a branch, and what is checked before it is written."""

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
class NewBranch:
    """What a caller asked for; None where they said nothing."""

    parent_id: BranchId | None = None
    name: str | None = None
    is_protected: bool = False
    expires_at: datetime | None = None
    init_source: str | None = None
    point: Point = HEAD  # of the parent's history
    is_archived: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)
    endpoints: tuple[tuple[EndpointType, RequestedEndpoint], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchChange:
    name: str | None = None
    is_protected: bool | None = None
    sets_expiration: bool = False
    expires_at: datetime | None = None  # None, when it is set: no expiration


async def check_branch_quota(rows: Rows, project_id: ProjectId, plan: Plan) -> None:
    """For one more."""
    if await rows.branches.count_in_project(project_id) >= plan.branches:
        raise RuleViolation(
            f"The project has {plan.branches} branches, all that its plan allows. Delete one, or change the plan.",
            code="BRANCHES_LIMIT_EXCEEDED",
        )


def check_new_branch(requested: NewBranch) -> None:
    known = (branches.PARENT_DATA, branches.SCHEMA_ONLY)
    if requested.init_source is not None and requested.init_source not in known:
        raise Invalid(f"init_source is {requested.init_source!r}: use {' or '.join(map(repr, known))}.")
    if [kind for kind, _ in requested.endpoints].count(EndpointType.READ_WRITE) > 1:
        raise Invalid("A branch has one read_write endpoint; ask for one, and for read_only ones beside it.")


async def check_name_is_free(rows: Rows, project: Project, name: str) -> None:
    if await rows.branches.get_by_name(project.id, name):
        raise name_conflict(name)


def name_conflict(name: str) -> Conflict:
    return Conflict(f"The project has a branch named {name!r} already. Choose another name.")


async def find_creating_operation(rows: Rows, parent: Branch) -> OperationId | None:
    """The last of the work that makes the parent, when it is not over: a copy of it comes after that.

    A root branch has its role and database only once its first compute has started.
    """
    kinds = {OperationKind.CREATE_ROOT_BRANCH, OperationKind.CREATE_BRANCH}
    if any(role.is_pending for role in await rows.roles.list_in_branch(parent.id)):
        kinds.add(OperationKind.START_COMPUTE)
    operations = await rows.operations.list_open(parent.project_id)
    creating = [each.id for each in operations if each.branch_id == parent.id and each.kind in kinds]
    return creating[-1] if creating else None
