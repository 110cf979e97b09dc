"""Named queries on roles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.allowance import Fullness
from bough.domain.endpoint import EndpointType
from bough.domain.quota import Limit
from bough.domain.role import Role
from bough.ids import BranchId, EndpointId
from bough.store.allowances import PlanTerms
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import branches, endpoints, organizations, project_limits, projects, roles

_PAGE = 500  # rows per query
_IN_BRANCH = (
    sa.select(roles)
    .where(equals_param(roles.c.branch_id), roles.c.name > sa.bindparam("after", type_=roles.c.name.type))
    .order_by(roles.c.name)
    .limit(_PAGE)
)
_one = (equals_param(roles.c.branch_id, "own_branch"), equals_param(roles.c.name, "own_name"))
_SAVE = sa.update(roles).where(*_one)
_DELETE = sa.delete(roles).where(*_one)
_KEY_COLUMNS = ("branch_id", "name")
_MARK_APPLIED = _SAVE.where(equals_param(roles.c.verifier, "applied_verifier"))
_MARK_APPLIED_WITHOUT_VERIFIER = _SAVE.where(roles.c.verifier.is_(None))
_ENDPOINT_ACCESS = (
    sa.select(
        sa.case((roles.c.can_login, roles.c.verifier)).label("verifier"),
        roles.c.valid_until,
        projects.c.settings.label("project_settings"),
        branches.c.is_protected.label("branch_is_protected"),
        endpoints.c.settings.label("endpoint_settings"),
        endpoints.c.max_cu,
        endpoints.c.pooler_enabled,
        projects.c.id.label("project_id"),
        projects.c.org_id,
        organizations.c.plan,
        sa.case(
            (endpoints.c.type == EndpointType.READ_WRITE, branches.c.fullness), else_=Fullness.BELOW_LIMIT.value
        ).label("fullness"),
        project_limits.c.reached.label("reached_limit"),
    )
    .select_from(endpoints)
    .join(projects, projects.c.id == endpoints.c.project_id)
    .join(organizations, organizations.c.id == projects.c.org_id)
    .outerjoin(project_limits, project_limits.c.project_id == projects.c.id)
    .join(branches, branches.c.id == endpoints.c.branch_id)
    .outerjoin(roles, sa.and_(roles.c.branch_id == endpoints.c.branch_id, equals_param(roles.c.name)))
    .where(
        equals_param(endpoints.c.id),
        endpoints.c.deleted_at.is_(None),
        projects.c.deleted_at.is_(None),
        branches.c.deleted_at.is_(None),
    )
)


_UNKNOWN: Mapping[str, Any] = {
    "verifier": None,
    "valid_until": None,
    "project_settings": {},
    "branch_is_protected": False,
    "endpoint_settings": {},
    "pooler_enabled": False,
    "project_id": "",
    "org_id": "",
    "plan": "free",
    "fullness": Fullness.BELOW_LIMIT.value,
    "reached_limit": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointAccess:
    """What decides whether a client may connect to an endpoint as a role, and how the client is pooled."""

    verifier: str | None  # None: the role does not exist or has no password
    valid_until: datetime | None
    project_settings: Mapping[str, Any]
    branch_is_protected: bool
    endpoint_settings: Mapping[str, Any]
    max_cu: float
    pooler_enabled: bool
    fullness: Fullness  # of the branch, if the endpoint can write to it
    reached_limit: Limit | None  # of the project
    terms: PlanTerms


class Roles(Queries):
    async def add(self, role: Role) -> None:
        await self._insert(roles, to_columns(role))

    async def save(self, role: Role) -> None:
        await self._run(_SAVE, own_branch=role.branch_id, own_name=role.name, **to_columns(role))

    async def add_all(self, created: Sequence[Role]) -> None:
        await self._insert_many(roles, [to_columns(role) for role in created])

    async def save_all(self, changed: Sequence[Role]) -> None:
        await self._run_many(_SAVE, [_with_key(role) for role in changed])

    async def remove_all(self, branch_id: BranchId, names: Sequence[str]) -> None:
        await self._run_many(_DELETE, [{"own_branch": branch_id, "own_name": name} for name in names])

    async def mark_applied(self, branch_id: BranchId, name: str, verifier: str | None, now: datetime) -> None:
        """Record that Postgres has this verifier. A role that was changed meanwhile stays pending."""
        values = {"own_branch": branch_id, "own_name": name, "is_wished": False, "updated_at": now}
        if verifier is None:
            await self._run(_MARK_APPLIED_WITHOUT_VERIFIER, **values)
        else:
            await self._run(_MARK_APPLIED, applied_verifier=verifier, **values)

    async def remove(self, branch_id: BranchId, name: str) -> None:
        await self._run(_DELETE, own_branch=branch_id, own_name=name)

    async def get(self, branch_id: BranchId, name: str) -> Role | None:
        row = await self._one(sa.select(roles).where(roles.c.branch_id == branch_id, roles.c.name == name))
        return from_row(Role, row) if row else None

    async def list_in_branch(self, branch_id: BranchId) -> list[Role]:
        rows: list[Role] = []
        while True:
            after = rows[-1].name if rows else ""
            page = await self._all(_IN_BRANCH, branch_id=branch_id, after=after)
            rows += [from_row(Role, row) for row in page]
            if len(page) < _PAGE:
                return rows

    async def get_endpoint_access(self, endpoint_id: EndpointId, name: str) -> EndpointAccess | None:
        """Use a single query. Return None if no live project has this endpoint."""
        row = await self._one(_ENDPOINT_ACCESS, id=endpoint_id, name=name)
        return _to_endpoint_access(row) if row else None


def _with_key(role: Role) -> dict[str, Any]:
    columns = {name: value for name, value in to_columns(role).items() if name not in _KEY_COLUMNS}
    return {"own_branch": role.branch_id, "own_name": role.name, **columns}


def unknown_endpoint_access(max_cu: float) -> EndpointAccess:
    """Return the result for an unknown endpoint, at the same cost as for a known one."""
    return _to_endpoint_access({**_UNKNOWN, "max_cu": max_cu})


def _to_endpoint_access(row: Mapping[str, Any]) -> EndpointAccess:
    converted = ("terms", "fullness", "reached_limit")
    own = {each.name: row[each.name] for each in fields(EndpointAccess) if each.name not in converted}
    return EndpointAccess(
        **own,
        fullness=Fullness(row["fullness"]),
        reached_limit=None if row["reached_limit"] is None else Limit(row["reached_limit"]),
        terms=from_row(PlanTerms, row),
    )
