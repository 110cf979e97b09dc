"""Claims: an instant database becomes a project of somebody's organization.

Somebody who signed in begins a claim, which keeps others away for a while, and ends it by naming the organization.
Then one transaction hands the project over: it is claimed, or nothing has happened. What is done twice does no harm.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.access import fresh
from bough.access.keys import Keys
from bough.control import defaults, instant_databases
from bough.control.accounts import Visitor
from bough.control.allowances import begin_period
from bough.control.desk import Desk
from bough.control.handing_over import as_reasons, hand_over
from bough.control.parts import Parts
from bough.domain import instant_database
from bough.domain.allowance import Fullness
from bough.domain.instant_database import InstantDatabase
from bough.domain.operation import Reach, Touch
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.rights import OrgRight
from bough.errors import Invalid, NotFound
from bough.ids import InstantId, OrganizationId, ProjectId, UserId
from bough.store.store import Rows

GONE = (
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
    names: Sequence[str]  # of its databases
    size: int | None  # of all of them; None: not measured yet
    is_full: bool  # it stores all that it may
    is_cut_off: bool  # it has transferred all that it may


def parsed(text: str) -> InstantId:
    """What is no id is nobody's."""
    try:
        return InstantId.parse(text)
    except Invalid:
        raise NotFound(GONE) from None


async def look(parts: Parts, visitor: Visitor, instant_id: InstantId) -> Claimable:
    parts.attempts.to_follow_a_link(visitor.address)
    async with parts.store.read() as rows:
        database, project = await _found(rows, parts.keys, instant_id)
        owner = await rows.organizations.get(project.org_id)
        branch = await rows.branches.default(project.id)
        databases = await rows.databases.of_branch(branch.id) if branch else []
        is_cut_off = await rows.allowances.terms_when_over(project.id) is not None
    if owner is None:
        raise NotFound(GONE)
    return Claimable(
        id=instant_id,
        database=database,
        project=project,
        owner=owner,
        names=[each.name for each in databases],
        size=branch.logical_size if branch else None,
        is_full=branch is not None and branch.fullness is not Fullness.ROOM,
        is_cut_off=is_cut_off,
    )


class Claims:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def begin(self, instant_id: InstantId) -> None:
        self._desk.principal.check_acts_in_person()
        project_id = await self._project_id(instant_id)
        async with self._desk.transaction() as rows:
            await rows.projects.lock(project_id)
            found, _project = await self._told(rows, instant_id)
            if not self._is_done(found):
                await rows.instant_databases.save(instant_database.claim_begun(found, self._user_id, clock.now()))

    async def cancel(self, instant_id: InstantId) -> None:
        """Others may claim it from now on."""
        project_id = await self._project_id(instant_id)
        async with self._desk.transaction() as rows:
            await rows.projects.lock(project_id)
            found, _project = await self._told(rows, instant_id)
            cancelled = instant_database.claim_cancelled(found, self._user_id, clock.now())
            if cancelled == found:
                self._desk.record.withdraw()
            else:
                await rows.instant_databases.save(cancelled)

    async def complete(self, instant_id: InstantId, org_id: OrganizationId) -> None:
        """Into this organization; into the one that was chosen first by whoever confirms twice."""
        self._desk.principal.check_acts_in_person()
        project_id = await self._project_id(instant_id)
        async with self._desk.turn(Touch(reach=Reach.PROJECT, project_id=project_id)) as rows:
            found, project = await self._told(rows, instant_id)
            if self._is_done(found):
                return
            now = clock.now()
            claimed = instant_database.claim_completed(found, self._user_id, now)
            await self._hand_over(rows, project, await self._destination(rows, org_id), now)
            await rows.instant_databases.save(claimed)
            endpoints = await rows.endpoints.of_project(project_id)
        await self._desk.changed(*(each.id for each in endpoints))

    async def _destination(self, rows: Rows, org_id: OrganizationId) -> Organization:
        caller = await fresh.caller(rows, self._desk.principal, org_id)
        if org_id not in caller.memberships:
            raise Invalid("You are not a member of this organization. Choose one of yours.")
        return caller.organization(org_id, to=OrgRight.CREATE_PROJECTS)

    async def _hand_over(self, rows: Rows, project: Project, destination: Organization, now: datetime) -> None:
        """From now on it is as if its new owner had made it."""
        kept = min(defaults.HISTORY_SECONDS, self._desk.plan_of(destination).history_seconds)
        owned = replace(project, created_by=self._user_id, history_retention_seconds=kept, updated_at=now)
        await rows.projects.save(owned)
        for branch in await rows.branches.of_project(project.id):
            await rows.branches.save(replace(branch, created_by=self._user_id, updated_at=now))
        await hand_over(self._desk, rows, [owned], destination, as_reasons)
        await begin_period(rows, project.id, now)

    async def _project_id(self, instant_id: InstantId) -> ProjectId:
        async with self._desk.store.read() as rows:
            _found_now, project = await _found(rows, self._desk.keys, instant_id)
        return project.id

    async def _told(self, rows: Rows, instant_id: InstantId) -> tuple[InstantDatabase, Project]:
        """What is there now, which is what the audit tells of: the project, never the id."""
        found, project = await _found(rows, self._desk.keys, instant_id)
        self._desk.record.about(org_id=project.org_id, project_id=project.id, thing=project.name)
        return found, project

    def _is_done(self, found: InstantDatabase) -> bool:
        """Whether the same person claimed it before: then there is nothing to do, and nothing to tell."""
        if found.claimed_by != self._user_id:
            return False
        self._desk.record.withdraw()
        return True

    @property
    def _user_id(self) -> UserId:
        return self._desk.principal.user_id


async def _found(rows: Rows, keys: Keys, instant_id: InstantId) -> tuple[InstantDatabase, Project]:
    try:
        return await instant_databases.find(rows, keys, instant_id)
    except NotFound:
        raise NotFound(GONE) from None
