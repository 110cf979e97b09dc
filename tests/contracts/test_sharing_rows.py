"""Organization keys, access to single projects, transfer requests and the audit log, in both back ends."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bough.domain.api_key import ApiKey, KeyKind
from bough.domain.audit import ActorKind, AuditEntry
from bough.domain.branch import Volume
from bough.domain.organization import Organization
from bough.domain.permission import Permission
from bough.domain.project import Project
from bough.domain.project_transfer import TransferRequest
from bough.domain.rights import ProjectRole
from bough.domain.user import OPERATOR, User
from bough.ids import OrganizationId, PermissionId, ProjectId, UserId
from bough.store.audit import AuditQuery
from bough.store.grants import NO_GRANT, ProjectGrant
from bough.store.queries import Duplicate
from bough.store.store import Rows, Store
from support.stores import NOON, ORGANIZATION, add_project, make_branch, make_project

LATER = NOON + timedelta(hours=1)
EMAIL = "ada@example.com"
OTHER = OrganizationId("org-other")


@pytest.fixture
async def project(store: Store) -> Project:
    created = make_project()
    async with store.transaction() as rows:
        await rows.projects.add(created)
        await rows.organizations.add(
            Organization(
                id=OTHER, name="other", handle=OTHER, plan="free", personal_for=None, created_at=NOON, updated_at=NOON
            )
        )
    return created


async def _add_user(rows: Rows) -> UserId:
    user_id = UserId.new()
    user = User(id=user_id, email=EMAIL, name="Ada", last_name="", plan="free", created_at=NOON, updated_at=NOON)
    await rows.users.add(user)
    return user_id


def _make_permission(project: Project, **changes: Any) -> Permission:
    created = Permission(
        id=PermissionId.new(), project_id=project.id, email=EMAIL, granted_by=OPERATOR, granted_at=NOON
    )
    return replace(created, **changes)


async def _add_key(rows: Rows, name: str, project_id: ProjectId | None = None) -> ApiKey:
    return await rows.api_keys.add(
        {
            "kind": KeyKind.PROJECT if project_id else KeyKind.ORGANIZATION,
            "name": name,
            "prefix": name,
            "digest": "d",
            "user_id": OPERATOR,
            "org_id": ORGANIZATION,
            "project_id": project_id,
            "created_at": NOON,
            "last_used_from": "",
        }
    )


async def test_an_address_has_one_living_permission_on_a_project(store: Store, project: Project) -> None:
    first, second = _make_permission(project), _make_permission(project, granted_at=LATER)
    async with store.transaction() as rows:
        await rows.grants.add_permission(first)
    with pytest.raises(Duplicate):
        async with store.transaction() as rows:
            await rows.grants.add_permission(second)
    async with store.transaction() as rows:
        assert await rows.grants.get_permission_by_email(project.id, EMAIL) == first
        assert await rows.grants.get_permission(project.id, first.id) == first
        assert await rows.grants.get_permission(make_project().id, first.id) is None
        await rows.grants.revoke_permission(first.id, LATER)
        assert await rows.grants.get_permission_by_email(project.id, EMAIL) is None
        assert await rows.grants.get_permission(project.id, first.id) is None
        await rows.grants.add_permission(second)
        assert await rows.grants.list_permissions(project.id) == [second]


async def test_what_a_person_has_is_a_role_a_permission_or_both(store: Store, project: Project) -> None:
    async with store.transaction() as rows:
        user_id = await _add_user(rows)
        assert await rows.grants.get(user_id, EMAIL, project.id) == NO_GRANT
        await rows.grants.set_role(project.id, user_id, ProjectRole.VIEWER)
        await rows.grants.set_role(project.id, user_id, ProjectRole.ADMIN)
        assert await rows.grants.get(user_id, EMAIL, project.id) == ProjectGrant(ProjectRole.ADMIN)
        await rows.grants.add_permission(_make_permission(project))
        assert await rows.grants.get_by_project(user_id, EMAIL) == {
            project.id: ProjectGrant(ProjectRole.ADMIN, is_shared=True)
        }
        assert await rows.grants.get_roles(project.id) == {user_id: ProjectRole.ADMIN}
        await rows.grants.set_role(project.id, user_id, None)
        assert await rows.grants.get(user_id, EMAIL, project.id) == ProjectGrant(None, is_shared=True)


async def test_who_leaves_an_organization_leaves_its_projects_only(store: Store, project: Project) -> None:
    elsewhere = make_project(org_id=OTHER)
    async with store.transaction() as rows:
        user_id = await _add_user(rows)
        await rows.projects.add(elsewhere)
        for each in (project, elsewhere):
            await rows.grants.set_role(each.id, user_id, ProjectRole.EDITOR)
        await rows.grants.delete_roles_in_organization(ORGANIZATION, user_id)
        assert await rows.grants.get_by_project(user_id, EMAIL) == {elsewhere.id: ProjectGrant(ProjectRole.EDITOR)}


async def test_projects_that_leave_take_nothing_along(store: Store, project: Project) -> None:
    stays = make_project(1)
    async with store.transaction() as rows:
        user_id = await _add_user(rows)
        await rows.projects.add(stays)
        for each in (project, stays):
            await rows.grants.set_role(each.id, user_id, ProjectRole.EDITOR)
            await rows.grants.add_permission(_make_permission(each))
            await rows.transfer_requests.add(_make_transfer_request(each, f"offer of {each.id}"))
        keys = [
            await _add_key(rows, "all"),
            await _add_key(rows, "one", project.id),
            await _add_key(rows, "two", stays.id),
        ]
        await rows.api_keys.revoke_in_projects([project.id], LATER)
        await rows.grants.revoke_all([project.id], LATER)
        await rows.transfer_requests.delete_by_projects([project.id])
        await rows.projects.set_organization([project.id], OTHER, LATER)
    async with store.read() as rows:
        assert await rows.grants.get_by_project(user_id, EMAIL) == {
            stays.id: ProjectGrant(ProjectRole.EDITOR, is_shared=True)
        }
        assert await rows.api_keys.list_in_organization(ORGANIZATION) == [keys[0], keys[2]]
        assert [await rows.api_keys.is_active(key.id) for key in keys] == [True, False, True]
        assert await rows.transfer_requests.get(f"offer of {project.id}", NOON) is None
        assert await rows.transfer_requests.get(f"offer of {stays.id}", NOON)
        assert await rows.projects.get(project.id) == replace(project, org_id=OTHER, updated_at=LATER)
        assert await rows.projects.get(stays.id) == stays


async def test_keys_of_an_organization_are_found_while_they_live(store: Store, project: Project) -> None:
    async with store.transaction() as rows:
        whole, single = await _add_key(rows, "whole"), await _add_key(rows, "single", project.id)
        assert await rows.api_keys.list_in_organization(ORGANIZATION) == [whole, single]
        assert await rows.api_keys.list_in_organization(OTHER) == []
        assert await rows.api_keys.get_in_organization(ORGANIZATION, single.id) == single
        assert await rows.api_keys.get_in_organization(OTHER, single.id) is None
        holder = await rows.api_keys.get_authenticated("single")
        assert holder
        assert [(organization.id, role) for organization, role in holder.memberships] == [(ORGANIZATION, None)]
        await rows.api_keys.revoke(single.id, LATER)
        assert await rows.api_keys.get_in_organization(ORGANIZATION, single.id) is None
        assert await rows.api_keys.get_authenticated("single") is None
        assert not await rows.api_keys.is_active(single.id)


async def test_projects_are_named_while_they_live_and_their_branches_counted(store: Store, project: Project) -> None:
    with_branches, deleted = make_project(1), make_project(2, deleted_at=NOON, recoverable_until=LATER)
    await add_project(store, with_branches)
    async with store.transaction() as rows:
        await rows.projects.add(deleted)
        for name, deleted_at in (("next", None), ("old", NOON)):
            branch = make_branch(with_branches, name=name, is_default=False, deleted_at=deleted_at)
            await rows.lineages.add_volume(Volume(id=branch.volume_id, project_id=with_branches.id, created_at=NOON))
            await rows.branches.add(branch)
    project_ids = [project.id, with_branches.id, deleted.id, ProjectId("no-such-project")]
    async with store.read() as rows:
        assert {each.id for each in await rows.projects.list_by_ids(project_ids)} == {project.id, with_branches.id}
        assert await rows.projects.max_branch_count(project_ids) == 2
        assert await rows.projects.max_branch_count([project.id]) == 0


def _make_transfer_request(project: Project, digest: str, expires_at: datetime = LATER) -> TransferRequest:
    return TransferRequest(
        digest=digest, project_id=project.id, created_by=OPERATOR, created_at=NOON, expires_at=expires_at
    )


async def test_an_offer_stands_until_its_time(store: Store, project: Project) -> None:
    offer = _make_transfer_request(project, "digest")
    async with store.transaction() as rows:
        await rows.transfer_requests.add(offer)
        await rows.transfer_requests.add(_make_transfer_request(project, "longer", LATER + timedelta(hours=1)))
    async with store.transaction() as rows:
        assert await rows.transfer_requests.get("digest", LATER - timedelta(seconds=1)) == offer
        assert await rows.transfer_requests.get("digest", LATER) is None
        assert await rows.transfer_requests.delete_expired(LATER) == 1
        assert await rows.transfer_requests.get("longer", LATER)


async def test_the_audit_is_read_from_the_newest_and_forgotten_from_the_oldest(store: Store, project: Project) -> None:
    async with store.transaction() as rows:
        for minute, action in enumerate(("one", "two", "three", "two")):
            await rows.audit.add(
                {
                    "at": NOON + timedelta(minutes=minute),
                    "actor_kind": ActorKind.PERSON if minute else ActorKind.ORGANIZATION_KEY,
                    "actor_name": EMAIL,
                    "user_id": OPERATOR,
                    "key_id": None,
                    "address": "192.0.2.1",
                    "request_id": "r",
                    "action": action,
                    "org_id": ORGANIZATION if minute else OTHER,
                    "project_id": project.id,
                    "thing": "ünïcode",
                    "details": {"minute": minute, "list": [None, "\u2603"]},
                }
            )
    async with store.transaction() as rows:
        newest, *older = await rows.audit.page(AuditQuery(project_id=project.id), 10, None)
        assert [line.details["minute"] for line in older] == [2, 1, 0]
        assert newest == AuditEntry(
            id=newest.id,
            at=NOON + timedelta(minutes=3),
            actor_kind=ActorKind.PERSON,
            actor_name=EMAIL,
            user_id=OPERATOR,
            key_id=None,
            address="192.0.2.1",
            request_id="r",
            action="two",
            org_id=ORGANIZATION,
            project_id=project.id,
            resource="ünïcode",
            details={"minute": 3, "list": [None, "\u2603"]},
        )
        assert await rows.audit.page(AuditQuery(), 2, newest.id) == older[:2]
        since, until = NOON + timedelta(minutes=1), NOON + timedelta(minutes=3)
        assert await rows.audit.page(AuditQuery(since=since, until=until), 10, None) == older[:2]
        assert await rows.audit.page(AuditQuery(org_id=OTHER), 10, None) == older[2:]
        assert await rows.audit.page(AuditQuery(action="two", user_id=OPERATOR), 10, None) == [newest, older[1]]
        assert await rows.audit.delete_before(since) == 1
        assert await rows.audit.page(AuditQuery(), 10, None) == [newest, *older[:2]]
