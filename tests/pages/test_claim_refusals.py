"""Rejected claims: wrong ids, other users' databases, missing rights, plan limits, forged forms; ids are not logged."""

from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from bough import clock
from bough.config import DEFAULT_PLANS
from bough.control.instant import claims
from bough.control.instant.claims import NOT_FOUND_MESSAGE
from bough.control.people.organizations import create_organization
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION, InstantStatus
from bough.domain.organization import Member, MemberRole
from bough.errors import Conflict, Denied
from bough.ids import InstantId, MemberId
from pages.instant_databases import (
    ClaimableDatabase,
    begin_claim,
    claim_database,
    create_instant_database,
    get_personal_organization,
)
from support import platform
from support.pages_app import PagesApp, SignedInClient
from support.stores import make_operation

STEPS = ("start", "confirm", "cancel")
MALFORMED_IDS = ["x", "0", "a" * 32 + "0", "%00", "é", "00000000-0000-7000-8000-00000000000g", "{}", " "]


async def _create_expired(app: PagesApp) -> ClaimableDatabase:
    created = await create_instant_database(app.services)
    await created.update_row(expires_at=clock.now())
    return created


async def _create_claimed_and_deleted(app: PagesApp) -> ClaimableDatabase:
    """Creates a database that was claimed and then deleted by its owner."""
    created = await create_instant_database(app.services)
    await claim_database(app, created, await app.create_user())
    project = await created.get_project()
    async with app.services.store.transaction() as rows:
        await rows.projects.save(replace(project, deleted_at=clock.now()))
    return created


async def test_wrong_expired_and_deleted_ids_have_one_page(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    deleted = [
        InstantId.new(),
        (await _create_expired(pages_app)).id,
        (await _create_claimed_and_deleted(pages_app)).id,
        *MALFORMED_IDS,
    ]
    pages = set()
    for text in deleted:
        response = await person.client.get(f"/claim/{text}")
        assert response.status_code == 404, text
        assert NOT_FOUND_MESSAGE in response.text
        pages.add(response.text)
        for step in STEPS:
            rejected = await person.client.post(f"/claim/{text}/{step}", org_id="org-any")
            assert (rejected.status_code, rejected.text) == (404, response.text), (text, step)
    assert len(pages) == 1


async def test_strangers_are_told_the_same(pages_app: PagesApp) -> None:
    texts = {(await pages_app.open_client().get(f"/claim/{text}")).text for text in (InstantId.new(), "x")}
    assert len(texts) == 1
    assert NOT_FOUND_MESSAGE in texts.pop()


async def test_a_database_that_is_somebodys_says_so_and_no_more(pages_app: PagesApp) -> None:
    created, owner, other = (
        await create_instant_database(pages_app.services),
        await pages_app.create_user(),
        await pages_app.sign_in_new_user(),
    )
    own = await claim_database(pages_app, created, owner)
    for browser in (pages_app.open_client(), other.client):
        response = await browser.get(created.claim_path)
        assert response.status_code == 200
        assert "has already been claimed" in response.text
        for private in (owner.email, own.name, created.project_id, created.password):
            assert f">{private}<" not in response.text
    for step in ("start", "confirm"):
        rejected = await other.client.post(
            f"{created.claim_path}/{step}", org_id=(await get_personal_organization(pages_app, other.user)).id
        )
        assert rejected.status_code == 409
        assert "has already been claimed" in rejected.text
    assert (await created.get_project()).org_id == own.id


async def test_a_database_that_somebody_else_is_claiming_says_until_when(pages_app: PagesApp) -> None:
    created, first, second = (
        await create_instant_database(pages_app.services),
        await pages_app.sign_in_new_user(),
        await pages_app.sign_in_new_user(),
    )
    await begin_claim(pages_app, created, first)
    shown = await second.client.get(created.claim_path)
    assert shown.status_code == 200
    assert "Another user is claiming it" in shown.text
    assert first.user.email not in shown.text
    org_id = (await get_personal_organization(pages_app, second.user)).id
    for step in ("start", "confirm"):
        rejected = await second.client.post(f"{created.claim_path}/{step}", org_id=org_id)
        assert rejected.status_code == 409
        assert "Another user is claiming it" in rejected.text
    own = await get_personal_organization(pages_app, first.user)
    assert (await first.client.post(f"{created.claim_path}/confirm", org_id=own.id)).status_code == 303


async def test_nobody_confirms_what_they_did_not_begin(pages_app: PagesApp) -> None:
    created, person = await create_instant_database(pages_app.services), await pages_app.sign_in_new_user()
    await person.client.get(created.claim_path)
    rejected = await person.client.post(
        f"{created.claim_path}/confirm", org_id=(await get_personal_organization(pages_app, person.user)).id
    )
    assert rejected.status_code == 409
    assert (await created.get_details()).status is InstantStatus.UNCLAIMED


@pytest.mark.parametrize(
    ("whose", "status"),
    [("viewer's", 403), ("stranger's", 400), ("unclaimed", 400), ("no-such-one", 400), ("No Id!", 400), ("", 400)],
)
async def test_an_organization_that_may_not_have_it_is_refused_beside_the_form(
    pages_app: PagesApp, whose: str, status: int
) -> None:
    created, person, other = (
        await create_instant_database(pages_app.services),
        await pages_app.sign_in_new_user(),
        await pages_app.create_user(),
    )
    org_id = {
        "unclaimed": UNCLAIMED_ORGANIZATION,
        "stranger's": (await get_personal_organization(pages_app, other)).id,
    }.get(whose, whose)
    if whose == "viewer's":
        organization = await create_organization(await pages_app.create_context(other), "Looms")
        org_id = organization.id
        member = Member(
            id=MemberId.new(),
            org_id=org_id,
            user_id=person.user.id,
            role=MemberRole.VIEWER,
            joined_at=clock.now(),
        )
        async with pages_app.services.store.transaction() as rows:
            await rows.members.add(member)
    await begin_claim(pages_app, created, person)
    rejected = await person.client.post(f"{created.claim_path}/confirm", org_id=org_id)
    assert rejected.status_code == status
    assert 'id="problem"' in rejected.text
    assert f"{created.claim_path}/confirm" in rejected.text
    assert (await created.get_project()).org_id == UNCLAIMED_ORGANIZATION
    assert (await created.get_details()).status is InstantStatus.CLAIMING


async def test_an_organization_without_room_is_refused_beside_the_form_and_another_can_be_chosen(
    pages_app: PagesApp,
) -> None:
    plans = {name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}
    small = PagesApp(pages_app.platform, plans={**plans, "free": {**plans["free"], "projects": 0}})
    created, person = await create_instant_database(small.services), await small.sign_in_new_user()
    own = await get_personal_organization(small, person.user)
    team = await create_organization(await small.create_context(person.user), "Team")
    async with small.services.store.transaction() as rows:
        await rows.organizations.save(replace(team, plan="unlimited"))
    await begin_claim(small, created, person)
    before = await created.get_project()
    rejected = await person.client.post(f"{created.claim_path}/confirm", org_id=own.id)
    assert rejected.status_code == 406
    assert "nothing was moved" in rejected.text
    assert f'value="{own.id}" selected' in rejected.text
    assert await created.get_project() == before
    assert (await person.client.post(f"{created.claim_path}/confirm", org_id=team.id)).status_code == 303
    assert (await created.get_project()).org_id == team.id


async def test_a_right_that_was_taken_a_moment_ago_counts_no_more(pages_app: PagesApp) -> None:
    created, person, admin = (
        await create_instant_database(pages_app.services),
        await pages_app.sign_in_new_user(),
        await pages_app.create_user(),
    )
    organization = await create_organization(await pages_app.create_context(admin), "Looms")
    member = Member(
        id=MemberId.new(),
        org_id=organization.id,
        user_id=person.user.id,
        role=MemberRole.MEMBER,
        joined_at=clock.now(),
    )
    async with pages_app.services.store.transaction() as rows:
        await rows.members.add(member)
    await begin_claim(pages_app, created, person)
    context = await pages_app.create_context(person.user)  # with the rights of the moment when the form was sent
    async with pages_app.services.store.transaction() as rows:
        await rows.members.set_role(member, MemberRole.VIEWER)
    with pytest.raises(Denied, match="may not create projects"):
        await claims.complete_claim(context, created.id, organization.id)
    assert (await created.get_project()).org_id == UNCLAIMED_ORGANIZATION


async def test_work_on_the_project_is_waited_for_and_then_named(pages_app: PagesApp) -> None:
    created, person = await create_instant_database(pages_app.services), await pages_app.sign_in_new_user()
    own = await get_personal_organization(pages_app, person.user)
    await begin_claim(pages_app, created, person)
    async with pages_app.services.store.transaction() as rows:
        await rows.operations.add(make_operation(created.project_id, due_at=clock.now() + timedelta(days=1)))
    rejected = await person.client.post(f"{created.claim_path}/confirm", org_id=own.id)
    assert rejected.status_code == 423
    assert "try again in a moment" in rejected.text
    assert int(rejected.headers["retry-after"]) >= 1
    assert (await created.get_details()).status is InstantStatus.CLAIMING


async def test_forms_of_whoever_is_not_signed_in_change_nothing_and_lead_to_the_page(pages_app: PagesApp) -> None:
    created, browser = await create_instant_database(pages_app.services), pages_app.open_client()
    await browser.get(created.claim_path)
    await browser.get("/signin")
    for step in STEPS:
        response = await browser.post(f"{created.claim_path}/{step}", org_id="org-any")
        assert (response.status_code, response.headers["location"]) == (303, created.claim_path)
    assert (await created.get_details()).status is InstantStatus.UNCLAIMED


@pytest.mark.parametrize("forgery", ["another page", "another token", "no token"])
async def test_forged_forms_claim_nothing(pages_app: PagesApp, forgery: str) -> None:
    created, person = await create_instant_database(pages_app.services), await pages_app.sign_in_new_user()
    own = await get_personal_organization(pages_app, person.user)
    await _send_forged(pages_app, person, forgery, f"{created.claim_path}/start")
    assert (await created.get_details()).status is InstantStatus.UNCLAIMED
    await begin_claim(pages_app, created, person)
    before = await created.get_row()
    for step in ("cancel", "confirm"):
        await _send_forged(pages_app, person, forgery, f"{created.claim_path}/{step}", org_id=own.id)
    assert await created.get_row() == before
    assert (await created.get_project()).org_id == UNCLAIMED_ORGANIZATION


async def _send_forged(app: PagesApp, person: SignedInClient, forgery: str, path: str, **fields: str) -> None:
    token = {"another page": person.client.form_token, "no token": ""}.get(forgery)
    if token is None:
        token = (await app.sign_in_new_user()).client.form_token
    headers = {"Origin": "http://evil.example"} if forgery == "another page" else None
    response = await person.client.post(path, headers, **{"form_token": token, **fields})
    assert response.status_code == 403
    assert "nothing was changed" in response.text


async def test_looking_changes_nothing(pages_app: PagesApp) -> None:
    created, person = await create_instant_database(pages_app.services), await pages_app.sign_in_new_user()
    before = await created.get_row(), await created.get_project()
    for browser in (person.client, pages_app.open_client()):
        for path in (created.claim_path, f"/database/{created.id}"):
            await browser.get(path)
            assert (await browser.client.head(path)).status_code in (200, 303)
        for step in STEPS:
            assert (await browser.get(f"{created.claim_path}/{step}")).status_code == 405
    assert (await created.get_row(), await created.get_project()) == before


async def test_guessing_is_slowed_down(pages_app: PagesApp) -> None:
    browser = pages_app.open_client()
    statuses = [(await browser.get(f"/claim/{InstantId.new()}")).status_code for _ in range(65)]
    assert statuses[0] == 404
    assert statuses[-1] == 429


async def test_no_visit_leaves_an_id_in_the_log(pages_app: PagesApp) -> None:
    created, person = await create_instant_database(pages_app.services), await pages_app.sign_in_new_user()
    with capture_logs() as lines:
        for browser in (pages_app.open_client(), person.client):
            for path in (
                created.claim_path,
                f"/database/{created.id}",
                f"/signin?next={created.claim_path}",
                f"/claim/{created.id}/start",
            ):
                await browser.get(path)
        await begin_claim(pages_app, created, person)
        for step in ("cancel", "start"):
            await person.client.post(f"{created.claim_path}/{step}")
        await person.client.post(
            f"{created.claim_path}/confirm", org_id=(await get_personal_organization(pages_app, person.user)).id
        )
        await person.client.get(created.claim_path)
    assert [line["status"] for line in lines if line["event"] == "request"].count(303) >= 5
    assert created.id not in str(lines)
    assert created.id.replace("-", "") not in str(lines)


async def test_the_one_who_comes_second_is_told_by_control_too(pages_app: PagesApp) -> None:
    created, owner, other = (
        await create_instant_database(pages_app.services),
        await pages_app.create_user(),
        await pages_app.create_user(),
    )
    await claim_database(pages_app, created, owner)
    with pytest.raises(Conflict, match="already claimed"):
        await claims.begin_claim(await pages_app.create_context(other), created.id)


@pytest.mark.parametrize(("sign_up", "words"), [("invitation", "need an invitation"), ("closed", "Only the operator")])
async def test_where_nobody_may_sign_up_the_page_says_what_to_do(
    shared_platform: platform.Platform, sign_up: str, words: str
) -> None:
    app = PagesApp(shared_platform, sign_up=sign_up)
    created = await create_instant_database(app.services)
    text = (await app.open_client().get(created.claim_path)).text
    assert words in text
    assert "/signup" not in text
    assert f"/signin?next={created.claim_path}" in text
