"""Deletion of expired rows, and the audit records of what the platform does by itself."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from bough import clock
from bough.config import Settings
from bough.control.audit import AuditRecord
from bough.control.gateway.activity import EndpointActivity
from bough.domain.audit import PLATFORM, ActorKind
from bough.domain.branch import BranchState, Volume
from bough.domain.invitation import Invitation
from bough.domain.one_time_link import LinkPurpose, OneTimeLink
from bough.domain.operation import OperationStatus
from bough.domain.organization import MemberRole
from bough.domain.project_transfer import TransferRequest
from bough.domain.session import Session
from bough.domain.user import OPERATOR
from bough.ids import InvitationId
from bough.operations.actions import ALL_ACTIONS
from bough.operations.events import Events
from bough.operations.queue import OperationQueue
from bough.store.audit import AuditQuery
from bough.store.sqlite import SqliteStore
from bough.store.store import Store
from bough.tasks.cleanup import DeleteExpiredTokens, DeleteOldAudit
from bough.tasks.expire_branches import ExpireBranches
from bough.tasks.purge_deleted import PurgeDeleted
from support.stores import NOON, ORGANIZATION, add_project, make_branch, make_project

HOUR = timedelta(hours=1)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    created = SqliteStore(tmp_path / "store.db")
    await created.open()
    yield created
    await created.close()


@pytest.fixture(autouse=True)
def freeze_clock_at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)


async def add_expiring_rows(store: Store, name: str, until: datetime) -> None:
    """Add one of everything that expires."""
    session = Session(digest=name, user_id=OPERATOR, address="", agent="", created_at=NOON - HOUR, expires_at=until)
    link = OneTimeLink(
        digest=name,
        purpose=LinkPurpose.RESET,
        email="ada@example.com",
        user_id=OPERATOR,
        created_at=NOON - HOUR,
        expires_at=until,
    )
    invitation = Invitation(
        id=InvitationId.new(),
        org_id=ORGANIZATION,
        email=f"{name}@example.com",
        role=MemberRole.VIEWER,
        digest=name,
        invited_by=OPERATOR,
        invited_at=NOON - HOUR,
        expires_at=until,
    )
    project = make_project()
    offer = TransferRequest(
        digest=name, project_id=project.id, created_by=OPERATOR, created_at=NOON - HOUR, expires_at=until
    )
    await add_project(store, project)
    async with store.transaction() as rows:
        await rows.sessions.add(session)
        await rows.links.add(link)
        await rows.invitations.replace(invitation)
        await rows.transfer_requests.add(offer)


async def list_existing(store: Store, name: str) -> list[bool]:
    """Return for each of them whether it exists, at a time when none has expired."""
    then = NOON - HOUR
    async with store.read() as rows:
        rows_found = [
            await rows.sessions.get(name, then),
            await rows.links.get(name, LinkPurpose.RESET, then),
            await rows.invitations.get_by_digest(name, then),
            await rows.transfer_requests.get(name, then),
        ]
    return [each is not None for each in rows_found]


async def test_what_expired_is_forgotten_and_the_rest_is_kept(store: Store) -> None:
    await add_expiring_rows(store, "old", NOON)
    await add_expiring_rows(store, "new", NOON + timedelta(seconds=1))
    assert await list_existing(store, "old") == [True] * 4
    result = await DeleteExpiredTokens(store).run()
    assert result == "deleted 1 sessions, 1 links, 1 invitations, 1 transfer requests that had expired"
    assert await list_existing(store, "old") == [False] * 4
    assert await list_existing(store, "new") == [True] * 4
    assert await DeleteExpiredTokens(store).run() == ""


async def list_audit_entries(store: Store) -> list[str]:
    async with store.read() as rows:
        return [line.resource for line in await rows.audit.page(AuditQuery(), 100, None)]


async def test_the_audit_is_kept_for_as_many_days_as_the_settings_say(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for days in (30, 3, 1):
        with monkeypatch.context() as then:
            then.setattr(clock, "now", lambda ago=days: NOON - timedelta(days=ago))
            async with store.transaction() as rows:
                await AuditRecord(PLATFORM, "any", address="", request_id="r", resource=f"{days} days").write(rows)
    assert await DeleteOldAudit(Settings(audit_days=1e9), store).run() == ""
    assert await DeleteOldAudit(Settings(audit_days=30), store).run() == ""
    assert await list_audit_entries(store) == ["1 days", "3 days", "30 days"]
    assert await DeleteOldAudit(Settings(audit_days=2.5), store).run() == "deleted 2 old audit records"
    assert await list_audit_entries(store) == ["1 days"]


async def test_the_platform_says_which_branch_it_let_expire(store: Store) -> None:
    project = make_project()
    root, _ = await add_project(store, project, state=BranchState.READY)
    expires = {"is_default": False, "name": "dev", "state": BranchState.READY, "parent_id": root.id}
    branch = make_branch(project, **expires, expires_at=NOON, ttl_seconds=60)
    async with store.transaction() as rows:
        await rows.lineages.add_volume(Volume(id=branch.volume_id, project_id=project.id, created_at=NOON))
        await rows.branches.add(branch)
    task = ExpireBranches(Settings(), store, OperationQueue(store, Events(), ALL_ACTIONS, 0), EndpointActivity(store))
    assert await task.run() == "deleting 1 expired branches"
    assert await task.run() == ""
    async with store.read() as rows:
        (line,) = await rows.audit.page(AuditQuery(), 100, None)
    assert (line.actor_kind, line.action, line.request_id) == (ActorKind.PLATFORM, "expire_branch", "expire-branches")
    assert (line.org_id, line.project_id, line.resource) == (ORGANIZATION, project.id, branch.id)
    assert (line.details, line.user_id, line.address) == ({"name": "dev"}, None, "")


async def test_the_platform_says_once_which_project_it_removed_for_good(store: Store) -> None:
    project = make_project(name="gone", deleted_at=NOON - HOUR, recoverable_until=NOON)
    await add_project(store, project)
    task = PurgeDeleted(store, OperationQueue(store, Events(), ALL_ACTIONS, 0))
    for _ in range(2):
        assert await task.run() == "purging 1 deleted projects"
        async with store.transaction() as rows:
            for operation in await rows.operations.list_open(project.id):
                await rows.operations.save(replace(operation, status=OperationStatus.FAILED, ended_at=NOON))
    async with store.read() as rows:
        (line,) = await rows.audit.page(AuditQuery(), 100, None)
    assert (line.actor_kind, line.action, line.request_id) == (ActorKind.PLATFORM, "purge_project", "purge-deleted")
    assert (line.org_id, line.project_id, line.details) == (ORGANIZATION, project.id, {"name": "gone"})
