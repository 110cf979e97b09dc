"""Claims: make an instant database a project of an organization.

A signed-in user begins a claim, which blocks others for a while, and completes it by choosing an organization. One
transaction then transfers the project completely or not at all. All steps are idempotent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.access import locked_lookup
from bough.access.keys import Keys
from bough.control import defaults
from bough.control.context import Context
from bough.control.instant.databases import find_instant_database
from bough.control.people.accounts import WebClient
from bough.control.projects.ownership import change_owner, format_as_reasons
from bough.control.services import Services
from bough.domain import instant_database
from bough.domain.allowance import Fullness
from bough.domain.instant_database import InstantDatabase
from bough.domain.locks import LockScope
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
    """The instant database behind a claim link."""

    id: InstantId
    database: InstantDatabase
    project: Project
    owner: Organization  # the organization of unclaimed databases until it is claimed
    database_names: Sequence[str]
    size: int | None  # of all databases; None if not measured yet
    is_over_storage_limit: bool  # its storage limit is reached
    is_over_transfer_limit: bool  # its transfer limit is reached


def parse_instant_id(text: str) -> InstantId:
    """Parse an id from a link; a malformed one gives the error for an unknown database."""
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
        is_over_transfer_limit = await rows.project_limits.get_reached(project.id) is not None
    if owner is None:
        raise NotFound(NOT_FOUND_MESSAGE)
    return Claimable(
        id=instant_id,
        database=database,
        project=project,
        owner=owner,
        database_names=[each.name for each in databases],
        size=branch.logical_size if branch else None,
        is_over_storage_limit=branch is not None and branch.fullness is not Fullness.BELOW_LIMIT,
        is_over_transfer_limit=is_over_transfer_limit,
    )


async def begin_claim(context: Context, instant_id: InstantId) -> None:
    context.principal.require_personal_key()
    project_id = await _find_project_id(context, instant_id)
    async with context.transaction() as rows:
        await rows.projects.lock(project_id)
        found, _project = await _load_for_audit(context, rows, instant_id)
        if not _is_done(context, found):
            await rows.instant_databases.save(
                instant_database.begin_claim(found, context.principal.user_id, clock.now())
            )


async def cancel_claim(context: Context, instant_id: InstantId) -> None:
    """Cancel the claim, so that others may claim the database."""
    project_id = await _find_project_id(context, instant_id)
    async with context.transaction() as rows:
        await rows.projects.lock(project_id)
        found, _project = await _load_for_audit(context, rows, instant_id)
        cancelled = instant_database.cancel_claim(found, context.principal.user_id, clock.now())
        if cancelled == found:
            context.audit.discard()
        else:
            await rows.instant_databases.save(cancelled)


async def complete_claim(context: Context, instant_id: InstantId, org_id: OrganizationId) -> None:
    """Transfer the database into this organization. A repeated call by the same user changes nothing."""
    context.principal.require_personal_key()
    project_id = await _find_project_id(context, instant_id)
    async with context.locked_transaction(LockScope.project(project_id)) as rows:
        found, project = await _load_for_audit(context, rows, instant_id)
        if _is_done(context, found):
            return
        now = clock.now()
        claimed = instant_database.complete_claim(found, context.principal.user_id, now)
        await _change_owner(context, rows, project, await _get_destination(context, rows, org_id), now)
        await rows.instant_databases.save(claimed)
        endpoints = await rows.endpoints.list_in_project(project_id)
    await context.invalidate_endpoints(*(each.id for each in endpoints))


async def _get_destination(context: Context, rows: Rows, org_id: OrganizationId) -> Organization:
    caller = await locked_lookup.caller(rows, context.principal, org_id)
    if org_id not in caller.memberships:
        raise Invalid("You are not a member of this organization. Choose one of your organizations.")
    return caller.organization(org_id, right=OrgRight.CREATE_PROJECTS)


async def _change_owner(
    context: Context, rows: Rows, project: Project, destination: Organization, now: datetime
) -> None:
    """Transfer the project as if its new owner had created it."""
    history_seconds = min(defaults.HISTORY_RETENTION_SECONDS, context.organization_plan(destination).history_seconds)
    owned = replace(
        project,
        created_by=context.principal.user_id,
        history_retention_seconds=history_seconds,
        updated_at=now,
    )
    await rows.projects.save(owned)
    for branch in await rows.branches.list_in_project(project.id):
        await rows.branches.save(replace(branch, created_by=context.principal.user_id, updated_at=now))
    await change_owner(context, rows, [owned], destination, format_as_reasons)


async def _find_project_id(context: Context, instant_id: InstantId) -> ProjectId:
    async with context.services.store.read() as rows:
        _database, project = await _find_database(rows, context.services.keys, instant_id)
    return project.id


async def _load_for_audit(context: Context, rows: Rows, instant_id: InstantId) -> tuple[InstantDatabase, Project]:
    """Load the database and add its project to the audit record, but never its id, which is a secret."""
    found, project = await _find_database(rows, context.services.keys, instant_id)
    context.audit.add_details(org_id=project.org_id, project_id=project.id, resource=project.name)
    return found, project


def _is_done(context: Context, found: InstantDatabase) -> bool:
    """Return whether the caller has claimed it already; then nothing is changed or recorded."""
    if found.claimed_by != context.principal.user_id:
        return False
    context.audit.discard()
    return True


async def _find_database(rows: Rows, keys: Keys, instant_id: InstantId) -> tuple[InstantDatabase, Project]:
    try:
        return await find_instant_database(rows, keys, instant_id)
    except NotFound:
        raise NotFound(NOT_FOUND_MESSAGE) from None
