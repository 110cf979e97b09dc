"""Create, change or drop a role or a database, as requested through the API.

Postgres executes the change at once, whether the branch has a running compute or not. When Postgres refuses it, the
rows are reverted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from bough import clock
from bough.domain.catalog_change import (
    AlterDatabase,
    CreateDatabase,
    CreateRole,
    DropDatabase,
    DropRole,
    RequestedChange,
    SetPassword,
    decode_change,
    encode_change,
)
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.operations.action import Action, step
from bough.operations.context import ActionContext
from bough.operations.outcome import Done, Outcome
from bough.operations.params import Params, drop_none
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousDatabase:
    """The name and owner of a database before the change."""

    name: str
    owner_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCatalogParams(Params):
    """Contains no verifier: the action reads it from the row of the role."""

    change: RequestedChange
    previous: PreviousDatabase | None = None  # required to revert `AlterDatabase`

    def to_stored(self) -> dict[str, Any]:
        before = self.previous and {"name": self.previous.name, "owner_name": self.previous.owner_name}
        return drop_none({"change": encode_change(self.change), "before": before})

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        before = stored.get("before")
        return cls(
            change=decode_change(stored["change"]),
            previous=PreviousDatabase(name=before["name"], owner_name=before["owner_name"]) if before else None,
        )


class ChangeCatalog(Action[ChangeCatalogParams]):
    kind = OperationKind.CHANGE_CATALOG
    params_type = ChangeCatalogParams

    @classmethod
    def locks(cls, params: ChangeCatalogParams, step: str | None) -> LockRequest:
        """All endpoints of the branch share its roles and databases."""
        return LockRequest(level=LockLevel.BRANCH)

    async def revert_rows(self, ctx: ActionContext) -> None:
        async with ctx.transaction() as rows:
            await self._revert(rows)

    @step(undo=revert_rows)
    async def apply(self, ctx: ActionContext) -> Outcome:
        branch = await ctx.get_branch(self.project_id, self.branch_id)
        change = self.params.change
        verifier = None
        if isinstance(change, CreateRole | SetPassword):
            async with ctx.read() as rows:
                role = await rows.roles.get(branch.id, change.name)
            verifier = role.verifier if role else None
            change = replace(change, verifier=verifier)
        await ctx.branch_engine.apply_change(await ctx.build_branch_spec(self.project_id, self.branch_id), change)
        return Done("the change is applied", writes=partial(self._mark_applied, verifier))

    async def _mark_applied(self, verifier: str | None, rows: Rows) -> None:
        now = clock.now()
        match self.params.change:
            case CreateRole(name=name) | SetPassword(name=name):
                await rows.roles.mark_applied(self.branch_id, name, verifier, now)
            case DropRole(name=name):
                await rows.roles.remove(self.branch_id, name)
            case CreateDatabase(name=name) | AlterDatabase(new_name=name):
                await rows.databases.mark_applied(self.branch_id, name, now)
            case DropDatabase(name=name):
                if database := await rows.databases.get(self.branch_id, name):
                    await rows.databases.remove(database)

    async def _revert(self, rows: Rows) -> None:
        """A password's previous verifier is not kept: the next inspection of the compute reads it again."""
        match self.params.change:
            case CreateRole(name=name):
                await rows.roles.remove(self.branch_id, name)
            case CreateDatabase(name=name):
                if database := await rows.databases.get(self.branch_id, name):
                    await rows.databases.remove(database)
            case AlterDatabase(new_name=name):
                if database := await rows.databases.get(self.branch_id, name):
                    previous = self.params.previous
                    assert previous is not None, "a change of a database is stored with what it was"
                    before = replace(database, name=previous.name, owner_name=previous.owner_name)
                    await rows.databases.save(replace(before, is_pending=False, updated_at=clock.now()))
            case SetPassword(name=name):
                if role := await rows.roles.get(self.branch_id, name):
                    await rows.roles.save(replace(role, is_pending=False))
            case DropRole() | DropDatabase():
                pass
