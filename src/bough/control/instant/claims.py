"""Claims: an instant database becomes a project of somebody's organization.

Somebody who signed in begins a claim, which keeps others away for a while, and ends it by naming the organization.
Then one transaction hands the project over: it is claimed, or nothing has happened. What is done twice does no harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.access import locked_lookup
from bough.access.keys import Keys
from bough.control import defaults
from bough.control.context import Context
from bough.control.gateway.allowances import start_transfer_period
from bough.control.instant.databases import find_instant_database
from bough.control.people.accounts import WebClient
from bough.control.projects.ownership import change_owner, format_as_reasons
from bough.control.services import Services
from bough.domain import instant_database
from bough.domain.allowance import Fullness
from bough.domain.instant_database import InstantDatabase
from bough.domain.locks import LockLevel, LockScope
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.rights import OrgRight
from bough.errors import Invalid, NotFound
from bough.ids import InstantId, OrganizationId, ProjectId
from bough.store.store import Rows

NOT_FOUND_MESSAGE = (
    "There is no such database: the link is wrong, or the database expired or was deleted. "
    "Create another; it takes one call."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimable:
    """What a link leads to, for whoever has it."""

    id: InstantId
    database: InstantDatabase
    project: Project
    owner: Organization  # that of unclaimed databases, until it is claimed
    database_names: Sequence[str]  # of its databases
    size: int | None  # of all of them; None: not measured yet
    is_full: bool  # it stores all that it may
    is_cut_off: bool  # it has transferred all that it may


def parse_instant_id(text: str) -> InstantId:
    """What is no id is nobody's."""
    try:
        return InstantId.parse(text)
    except Invalid:
        raise NotFound(NOT_FOUND_MESSAGE) from None


async def load_claimable(services: Services, client: WebClient, instant_id: InstantId) -> Claimable:
    services.attempt_limits.take_link_visit(client.address)
    async with services.store.read() as rows:
        database, project = await _find_database(rows, services.keys, instant_id)
        owner = await rows.organizations.get(project.org_id)
        branch = await rows.branches.get_default(project.id)
        databases = await rows.databases.list_in_branch(branch.id) if branch else []
        is_cut_off = await rows.allowances.get_terms_if_over_limit(project.id) is not None
    if owner is None:
        raise NotFound(NOT_FOUND_MESSAGE)
    return Claimable(
        id=instant_id,
        database=database,
        project=project,
        owner=owner,
        database_names=[each.name for each in databases],
        size=branch.logical_size if branch else None,
        is_full=branch is not None and branch.fullness is not Fullness.BELOW_LIMIT,
        is_cut_off=is_cut_off,
    )


async def begin_claim(context: Context, instant_id: InstantId) -> None:
    context.principal.require_personal_key()
    project_id = await _project_id(context, instant_id)
    async with context.transaction() as rows:
        await rows.projects.lock(project_id)
        found, _project = await _load_for_audit(context, rows, instant_id)
        if not _is_done(context, found):
            await rows.instant_databases.save(
                instant_database.begin_claim(found, context.principal.user_id, clock.now())
            )


async def cancel_claim(context: Context, instant_id: InstantId) -> None:
    """Others may claim it from now on."""
    project_id = await _project_id(context, instant_id)
    async with context.transaction() as rows:
        await rows.projects.lock(project_id)
        found, _project = await _load_for_audit(context, rows, instant_id)
        cancelled = instant_database.cancel_claim(found, context.principal.user_id, clock.now())
        if cancelled == found:
            context.audit.discard()
        else:
            await rows.instant_databases.save(cancelled)


async def complete_claim(context: Context, instant_id: InstantId, org_id: OrganizationId) -> None:
    """Into this organization; into the one that was chosen first by whoever confirms twice."""
    context.principal.require_personal_key()
    project_id = await _project_id(context, instant_id)
    async with context.locked_transaction(LockScope(level=LockLevel.PROJECT, project_id=project_id)) as rows:
        found, project = await _load_for_audit(context, rows, instant_id)
        if _is_done(context, found):
            return
        now = clock.now()
        claimed = instant_database.complete_claim(found, context.principal.user_id, now)
        await _change_owner(context, rows, project, await _destination(context, rows, org_id), now)
        await rows.instant_databases.save(claimed)
        endpoints = await rows.endpoints.list_in_project(project_id)
    await context.invalidate_endpoints(*(each.id for each in endpoints))


async def _destination(context: Context, rows: Rows, org_id: OrganizationId) -> Organization:
    caller = await locked_lookup.caller(rows, context.principal, org_id)
    if org_id not in caller.memberships:
        raise Invalid("You are not a member of this organization. Choose one of yours.")
    return caller.organization(org_id, right=OrgRight.CREATE_PROJECTS)


async def _change_owner(
    context: Context, rows: Rows, project: Project, destination: Organization, now: datetime
) -> None:
    """From now on it is as if its new owner had made it."""
    kept = min(defaults.HISTORY_RETENTION_SECONDS, context.organization_plan(destination).history_seconds)
    owned = replace(project, created_by=context.principal.user_id, history_retention_seconds=kept, updated_at=now)
    await rows.projects.save(owned)
    for branch in await rows.branches.list_in_project(project.id):
        await rows.branches.save(replace(branch, created_by=context.principal.user_id, updated_at=now))
    await change_owner(context, rows, [owned], destination, format_as_reasons)
    await start_transfer_period(rows, project.id, now)


async def _project_id(context: Context, instant_id: InstantId) -> ProjectId:
    async with context.services.store.read() as rows:
        _found_now, project = await _find_database(rows, context.services.keys, instant_id)
    return project.id


async def _load_for_audit(context: Context, rows: Rows, instant_id: InstantId) -> tuple[InstantDatabase, Project]:
    """What is there now, which is what the audit tells of: the project, never the id."""
    found, project = await _find_database(rows, context.services.keys, instant_id)
    context.audit.add_details(org_id=project.org_id, project_id=project.id, thing=project.name)
    return found, project


def _is_done(context: Context, found: InstantDatabase) -> bool:
    """Whether the same person claimed it before: then there is nothing to do, and nothing to tell."""
    if found.claimed_by != context.principal.user_id:
        return False
    context.audit.discard()
    return True


async def _find_database(rows: Rows, keys: Keys, instant_id: InstantId) -> tuple[InstantDatabase, Project]:
    try:
        return await find_instant_database(rows, keys, instant_id)
    except NotFound:
        raise NotFound(NOT_FOUND_MESSAGE) from None
