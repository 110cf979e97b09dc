"""Compares the rows of a branch's roles and databases with what its compute has.

A tenant can create any number of roles and databases with SQL. Those beyond the limit of the plan are not listed:
existing rows come first, then the oldest objects.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bough.chunks import iterate_chunks
from bough.config import Plan
from bough.domain.database import Database
from bough.domain.endpoint import Endpoint, EndpointType
from bough.domain.role import Role
from bough.engine.port import (
    MAX_LISTED,
    BranchContents,
    ContentsQuery,
    EngineInspection,
    ObservedDatabase,
    ObservedRole,
)
from bough.ids import BranchId
from bough.store.store import Rows, Store

T = TypeVar("T", Role, Database)
PlanLookup = Callable[[str], Plan]  # by name


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContents:
    """The rows of a branch's roles and databases."""

    roles: tuple[Role, ...]
    databases: tuple[Database, ...]

    @property
    def has_pending_changes(self) -> bool:
        return any(role.is_pending for role in self.roles) or any(each.is_pending for each in self.databases)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsInspection:
    """The roles and databases of a branch, as stored and as Postgres has them."""

    branch_id: BranchId
    stored: StoredContents
    actual: BranchContents
    has_changes: bool

    @property
    def has_role_name_changes(self) -> bool:
        return {role.name for role in self.stored.roles} != {role.name for role in self.actual.roles}


async def load_contents(rows: Rows, branch_id: BranchId) -> StoredContents:
    return StoredContents(
        roles=tuple(await rows.roles.list_in_branch(branch_id)),
        databases=tuple(await rows.databases.list_in_branch(branch_id)),
    )


async def inspect_contents(
    store: Store, engine: EngineInspection, endpoint: Endpoint, get_plan: PlanLookup | None = None
) -> ContentsInspection | None:
    """Return None for a read replica, and when the compute does not run. Without `get_plan`, no plan limits apply."""
    if endpoint.type is not EndpointType.READ_WRITE:
        return None
    async with store.read() as rows:  # read first, so that later changes through the API are not overwritten
        stored = await load_contents(rows, endpoint.branch_id)
        plan = await rows.organizations.get_plan_of_project(endpoint.project_id) if get_plan else None
    actual = await engine.read_compute_contents(endpoint.id, build_contents_query(stored, get_plan, plan))
    if actual is None:
        return None
    is_same = await _is_same(stored.roles, actual.roles, to_observed_role) and await _is_same(
        stored.databases, actual.databases, to_observed_database
    )
    return ContentsInspection(branch_id=endpoint.branch_id, stored=stored, actual=actual, has_changes=not is_same)


def build_contents_query(stored: StoredContents, get_plan: PlanLookup | None, plan_name: str | None) -> ContentsQuery:
    """Existing rows are kept even when a smaller plan allows fewer."""
    plan = get_plan(plan_name) if get_plan and plan_name else None
    return ContentsQuery(
        max_roles=_query_limit(plan.roles if plan else MAX_LISTED, len(stored.roles)),
        max_databases=_query_limit(plan.databases if plan else MAX_LISTED, len(stored.databases)),
        known_roles=tuple(role.name for role in stored.roles),
        known_databases=tuple(database.name for database in stored.databases),
    )


def _query_limit(limit: int, present: int) -> int:
    return min(max(limit, present), MAX_LISTED)


async def _is_same(
    stored: Sequence[T],
    actual: Sequence[ObservedRole | ObservedDatabase],
    to_observed: Callable[[T], ObservedRole | ObservedDatabase],
) -> bool:
    by_name = {each.name: each for each in actual}
    async for chunk in iterate_chunks(stored):
        if any(by_name.pop(each.name, None) != each for each in map(to_observed, chunk)):
            return False
    return not by_name


def to_contents(stored: StoredContents) -> BranchContents:
    """Return what Postgres should have, according to the rows."""
    return BranchContents(
        roles=tuple(map(to_observed_role, stored.roles)), databases=tuple(map(to_observed_database, stored.databases))
    )


def to_observed_role(role: Role) -> ObservedRole:
    return ObservedRole(name=role.name, can_login=role.can_login, verifier=role.verifier, valid_until=role.valid_until)


def to_observed_database(database: Database) -> ObservedDatabase:
    return ObservedDatabase(name=database.name, owner=database.owner_name)
