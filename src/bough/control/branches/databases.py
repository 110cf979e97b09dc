"""Databases of a branch: create, rename, change the owner, delete."""

from dataclasses import replace

from bough import clock
from bough.control.branches.contents import enqueue_change, locked_branch
from bough.control.context import Context
from bough.domain import database as databases
from bough.domain.catalog_change import AlterDatabase, CreateDatabase, DropDatabase
from bough.domain.database import Database
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.engine.port import MAX_LISTED
from bough.errors import Conflict, Invalid, NotFound, RuleViolation
from bough.ids import BranchId
from bough.operations.actions.change_catalog import PreviousDatabase
from bough.store.store import Rows


async def create_database(
    context: Context, project: Project, branch_id: BranchId, name: str, owner: str
) -> tuple[Database, list[Operation]]:
    databases.check_name(name)
    context.audit.add_details(resource=f"{branch_id}/{name}")
    async with locked_branch(context, project, branch_id) as (rows, branch):
        known = await rows.databases.list_in_branch(branch.id)
        _check_free(name, known)
        await _check_owner(rows, branch.id, owner)
        limit = min((await context.load_project_plan(rows, project)).databases, MAX_LISTED)
        if len(known) >= limit:
            raise RuleViolation(
                f"The branch has {limit} databases, the limit of its plan. Delete one, or change the plan.",
                code="DATABASES_LIMIT_EXCEEDED",
            )
        database = await rows.databases.add(
            databases.new_database(branch.id, name, owner, clock.now(), is_pending=True)
        )
        operations = await enqueue_change(context, rows, branch, CreateDatabase(name=name, owner=owner))
    return database, operations


async def update_database(
    context: Context, project: Project, branch_id: BranchId, name: str, *, new_name: str | None, owner: str | None
) -> tuple[Database, list[Operation]]:
    """Update the database. Renaming it closes its sessions."""
    if new_name is not None:
        databases.check_name(new_name)
    async with locked_branch(context, project, branch_id) as (rows, branch):
        known = await rows.databases.list_in_branch(branch.id)
        before = next((each for each in known if each.name == name), None)
        if before is None:
            raise NotFound.resource("database")
        after = replace(before, name=new_name or name, owner_name=before.owner_name if owner is None else owner)
        if after == before:
            return before, []
        if after.name != name:
            _check_free(after.name, known)
        await _check_owner(rows, branch.id, after.owner_name)
        after = replace(after, is_pending=True, updated_at=clock.now())
        await rows.databases.save(after)
        operations = await enqueue_change(
            context,
            rows,
            branch,
            AlterDatabase(name=name, new_name=after.name, owner=after.owner_name),
            PreviousDatabase(name=name, owner_name=before.owner_name),
        )
    return after, operations


async def delete_database(
    context: Context, project: Project, branch_id: BranchId, name: str
) -> tuple[Database, list[Operation]] | None:
    """Delete the database and close its sessions. Returns None if it does not exist."""
    async with locked_branch(context, project, branch_id) as (rows, branch):
        database = await rows.databases.get(branch.id, name)
        if database is None:
            context.audit.discard()
            return None
        operations = await enqueue_change(context, rows, branch, DropDatabase(name=name))
    return database, operations


def _check_free(name: str, known: list[Database]) -> None:
    if name in {each.name for each in known}:
        raise Conflict(f"The branch already has a database {name!r}. Choose another name.")


async def _check_owner(rows: Rows, branch_id: BranchId, owner: str) -> None:
    if await rows.roles.get(branch_id, owner) is None:
        raise Invalid(f"The branch has no role {owner!r} to own the database. Create the role first.")
