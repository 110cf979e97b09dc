"""Claiming a database: the contents of the page, its buttons, and the owner afterwards."""

from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest

from bough import clock
from bough.config import DEFAULT_PLANS
from bough.control import defaults
from bough.control.people.organizations import create_organization
from bough.domain.allowance import Fullness
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION, InstantStatus
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.quota import Limit
from bough.domain.usage import EndpointTraffic
from bough.domain.user import User
from bough.ids import MemberId
from bough.store.audit import AuditQuery
from pages.instant_databases import begin_claim, claim_database, create_instant_database, get_personal_organization
from support.pages_app import PagesApp, ParsedPage, SignedInClient


async def _read_page_text(person: SignedInClient, path: str) -> str:
    response = await person.client.get(path)
    assert response.status_code == 200
    return " ".join(unescape(response.text).split())


async def _join_new_organization(app: PagesApp, user: User, role: MemberRole, name: str) -> Organization:
    """Creates an organization of another user and adds the user to it."""
    organization = await create_organization(await app.create_context(await app.create_user()), name)
    member = Member(id=MemberId.new(), org_id=organization.id, user_id=user.id, role=role, joined_at=clock.now())
    async with app.services.store.transaction() as rows:
        await rows.members.add(member)
    return organization


async def test_whoever_has_the_link_sees_what_it_leads_to_and_no_password(pages_app: PagesApp) -> None:
    created, browser = await create_instant_database(pages_app.services), pages_app.open_client()
    async with pages_app.services.store.transaction() as rows:
        branch = await rows.branches.get_default(created.project_id)
        assert branch is not None
        await rows.branches.set_logical_size(branch.id, 31 * 1024**2 + 600_000)
    response = await browser.get(created.claim_path)
    assert response.status_code == 200
    text = response.text
    row = await created.get_row()
    for timestamp in (row.created_at, row.expires_at):
        assert f'datetime="{timestamp:%Y-%m-%dT%H:%M:%SZ}"' in text
    for word in (created.project_id, "<dd>17</dd>", "US East 2 (Ohio)", "neondb", "31.6 MB", "UNCLAIMED"):
        assert word in text
    for secret in (created.password, "postgresql://", row.digest, row.sealed_id):
        assert secret not in text
    assert (await created.get_details()).status is InstantStatus.UNCLAIMED


async def test_who_comes_because_nothing_goes_on_is_told_why(pages_app: PagesApp) -> None:
    created, now = await create_instant_database(pages_app.services), clock.now()
    for words in ("It is full", "Clients cannot connect"):
        assert words not in (await pages_app.open_client().get(created.claim_path)).text
    async with pages_app.services.store.transaction() as rows:
        branch = await rows.branches.get_default(created.project_id)
        assert branch is not None
        await rows.allowances.set_fullness(branch.id, Fullness.FULL, 101 * 1024**2)
        await rows.project_limits.save(created.project_id, Limit.PLAN_TRANSFER, {}, now)
    text = (await pages_app.open_client().get(created.claim_path)).text
    assert "It is full: an unclaimed database can store 100 MB." in text
    assert "Clients cannot connect: it has used up the 1 GB that an unclaimed database can transfer." in text


async def test_a_claim_resets_what_was_transferred(pages_app: PagesApp) -> None:
    created = await create_instant_database(pages_app.services)
    async with pages_app.services.store.transaction() as rows:
        (endpoint,) = await rows.endpoints.list_in_project(created.project_id)
        sent = EndpointTraffic(endpoint_id=endpoint.id, bytes_in=0, bytes_out=2**31, connections_opened=1)
        await rows.usage.add_traffic(sent)
        assert await pages_app.services.quotas.judge(rows, [created.project_id], clock.now()) == [created.project_id]
    await claim_database(pages_app, created, await pages_app.create_user())
    async with pages_app.services.store.read() as rows:
        (found,) = await rows.project_limits.list_used([created.project_id], clock.now())
    assert (found.usage.bytes_out, found.sent_bytes, found.reached) == (0, 2**31, None)


async def test_whoever_is_not_signed_in_is_asked_to_and_comes_back(pages_app: PagesApp) -> None:
    created, browser, user = (
        await create_instant_database(pages_app.services),
        pages_app.open_client(),
        await pages_app.create_user(),
    )
    links = [link["href"] for link in ParsedPage((await browser.get(created.claim_path)).text).find_all("a")]
    sign_in = f"/signin?next={created.claim_path}"
    assert sign_in in links
    assert f"/signup?next={created.claim_path}" in links
    assert ParsedPage((await browser.get(sign_in)).text).field_value("next") == created.claim_path
    response = await browser.sign_in(user, next=created.claim_path)
    assert response.headers["location"] == created.claim_path


async def test_a_claim_from_the_first_button_to_the_last(pages_app: PagesApp) -> None:
    created, person = await create_instant_database(pages_app.services), await pages_app.sign_in_new_user()
    own = await get_personal_organization(pages_app, person.user)
    assert "Claim this database" in await _read_page_text(person, created.claim_path)
    await begin_claim(pages_app, created, person)
    assert (await created.get_details()).status is InstantStatus.CLAIMING
    text = await _read_page_text(person, created.claim_path)
    for word in ("no longer expires", "512 MB of storage", "5 GB of transfer per month", f'value="{own.id}"'):
        assert word in text
    response = await person.client.post(f"{created.claim_path}/confirm", org_id=own.id)
    assert (response.status_code, response.headers["location"]) == (303, created.claim_path)
    for _ in range(2):  # the page can be reloaded
        text = await _read_page_text(person, created.claim_path)
        assert "The database is yours" in text
        for word in (created.project_id, own.name, "/account", "Your connection string still works"):
            assert word in text
    seen = await created.get_details()
    assert (seen.status, seen.connection_string) == (InstantStatus.CLAIMED, None)
    account = await _read_page_text(person, "/account")
    assert created.project_id in account
    assert created.uri in account


async def test_the_project_is_as_if_its_claimer_had_made_it(pages_app: PagesApp) -> None:
    created, user = await create_instant_database(pages_app.services), await pages_app.create_user()
    before = await created.get_project()
    assert (before.org_id, before.history_retention_seconds) == (UNCLAIMED_ORGANIZATION, 0)
    own = await claim_database(pages_app, created, user)
    after = await created.get_project()
    assert (after.org_id, after.created_by) == (own.id, user.id)
    assert after.history_retention_seconds == defaults.HISTORY_RETENTION_SECONDS
    assert after.updated_at > before.updated_at
    async with pages_app.services.store.read() as rows:
        branches = await rows.branches.list_in_project(created.project_id)
        row = await created.get_row()
    assert [branch.created_by for branch in branches] == [user.id]
    assert (row.claimed_by, row.expires_at) == (user.id, (await created.get_details()).database.expires_at)


async def test_a_plan_that_keeps_less_history_gives_less(pages_app: PagesApp) -> None:
    plans = {name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}
    short = PagesApp(pages_app.platform, plans={**plans, "free": {**plans["free"], "history_seconds": 60}})
    created = await create_instant_database(short.services)
    await claim_database(short, created, await short.create_user())
    assert (await created.get_project()).history_retention_seconds == 60


async def test_only_organizations_that_may_have_it_are_offered_and_their_own_comes_first(pages_app: PagesApp) -> None:
    created, person = await create_instant_database(pages_app.services), await pages_app.sign_in_new_user()
    looms = await _join_new_organization(pages_app, person.user, MemberRole.MEMBER, "An & Co looms")
    for role in (MemberRole.EDITOR, MemberRole.VIEWER, MemberRole.COLLABORATOR):
        await _join_new_organization(pages_app, person.user, role, "not for them")
    async with pages_app.services.store.transaction() as rows:
        await rows.organizations.save(replace(looms, plan="unlimited"))
    await begin_claim(pages_app, created, person)
    response = await person.client.get(created.claim_path)
    options = [option["value"] for option in ParsedPage(response.text).find_all("option")]
    assert options == [(await get_personal_organization(pages_app, person.user)).id, looms.id]
    assert "An &amp; Co looms</strong>: 16 TB of storage, 1 PB of transfer" in response.text
    await person.client.post(f"{created.claim_path}/confirm", org_id=looms.id)
    assert (await created.get_project()).org_id == looms.id
    assert "An & Co looms" in await _read_page_text(person, created.claim_path)


async def test_buttons_that_are_pressed_twice_do_no_more_than_once(pages_app: PagesApp) -> None:
    created, person = await create_instant_database(pages_app.services), await pages_app.sign_in_new_user()
    own, other = (
        await get_personal_organization(pages_app, person.user),
        await _join_new_organization(pages_app, person.user, MemberRole.MEMBER, "other"),
    )
    for step in ("start", "start", "cancel", "cancel", "start"):
        response = await person.client.post(f"{created.claim_path}/{step}")
        assert (response.status_code, response.headers["location"]) == (303, created.claim_path)
    for org_id in (own.id, own.id, other.id):
        response = await person.client.post(f"{created.claim_path}/confirm", org_id=org_id)
        assert (response.status_code, response.headers["location"]) == (303, created.claim_path)
    for step in ("start", "cancel"):
        assert (await person.client.post(f"{created.claim_path}/{step}")).headers["location"] == created.claim_path
    assert (await created.get_project()).org_id == own.id
    assert (await created.get_details()).status is InstantStatus.CLAIMED


async def test_a_claim_that_is_cancelled_is_open_to_others(pages_app: PagesApp) -> None:
    created, person, other = (
        await create_instant_database(pages_app.services),
        await pages_app.sign_in_new_user(),
        await pages_app.sign_in_new_user(),
    )
    await begin_claim(pages_app, created, person)
    await other.client.post(f"{created.claim_path}/cancel")  # has no effect for another user
    assert (await created.get_details()).status is InstantStatus.CLAIMING
    await person.client.post(f"{created.claim_path}/cancel")
    assert (await created.get_details()).status is InstantStatus.UNCLAIMED
    await begin_claim(pages_app, created, other)
    assert "Choose an organization" in await _read_page_text(other, created.claim_path)


async def test_a_claim_that_is_not_finished_is_open_to_others_after_a_quarter_of_an_hour(
    pages_app: PagesApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    created, person, other = (
        await create_instant_database(pages_app.services),
        await pages_app.sign_in_new_user(),
        await pages_app.sign_in_new_user(),
    )
    own = await get_personal_organization(pages_app, person.user)
    await begin_claim(pages_app, created, person)
    until = (await created.get_row()).claiming_until
    assert until is not None
    assert f"{until:%-d %B %Y, %H:%M} UTC" in await _read_page_text(other, created.claim_path)
    with monkeypatch.context() as later:
        later.setattr(clock, "now", lambda: until - timedelta(microseconds=1))
        assert (await created.get_details()).status is InstantStatus.CLAIMING
        later.setattr(clock, "now", lambda: until)
        assert (await created.get_details()).status is InstantStatus.UNCLAIMED
        late = await person.client.post(f"{created.claim_path}/confirm", org_id=own.id)
        assert late.status_code == 409
        assert "This claim has expired" in late.text
        await begin_claim(pages_app, created, other)
        late = await person.client.post(f"{created.claim_path}/confirm", org_id=own.id)
        assert late.status_code == 409
        assert "Another user is claiming it" in late.text
    assert (await created.get_project()).org_id == UNCLAIMED_ORGANIZATION


async def test_a_claim_that_began_in_time_may_end_after_the_expiration(pages_app: PagesApp) -> None:
    created, person = await create_instant_database(pages_app.services), await pages_app.sign_in_new_user()
    own = await get_personal_organization(pages_app, person.user)
    await begin_claim(pages_app, created, person)
    await created.update_row(expires_at=clock.now())
    response = await person.client.post(f"{created.claim_path}/confirm", org_id=own.id)
    assert response.status_code == 303
    assert (await created.get_project()).org_id == own.id


async def test_the_audit_tells_of_a_claim_on_both_sides_and_never_the_id(pages_app: PagesApp) -> None:
    created, person = await create_instant_database(pages_app.services), await pages_app.sign_in_new_user()
    own = await get_personal_organization(pages_app, person.user)
    await begin_claim(pages_app, created, person)
    for step in ("cancel", "cancel", "start"):
        await person.client.post(f"{created.claim_path}/{step}")
    for _ in range(2):
        await person.client.post(f"{created.claim_path}/confirm", org_id=own.id)
    async with pages_app.services.store.read() as rows:
        lines = await rows.audit.page(AuditQuery(project_id=created.project_id), 100, None)
    actions = [(line.action, line.org_id) for line in reversed(lines) if line.user_id == person.user.id]
    assert actions == [
        ("begin_claim", UNCLAIMED_ORGANIZATION),
        ("cancel_claim", UNCLAIMED_ORGANIZATION),
        ("begin_claim", UNCLAIMED_ORGANIZATION),
        ("claim_database", UNCLAIMED_ORGANIZATION),
        ("claim_database", own.id),
    ]
    assert lines[0].details == {"source_org_id": UNCLAIMED_ORGANIZATION, "destination_org_id": own.id}
    assert created.id not in str(lines)


async def test_the_address_that_published_tools_know_leads_to_the_page(pages_app: PagesApp) -> None:
    created, browser = await create_instant_database(pages_app.services), pages_app.open_client()
    for text in (created.id, created.id.upper(), created.id.replace("-", "")):
        response = await browser.get(f"/database/{text}")
        assert (response.status_code, response.headers["location"]) == (303, created.claim_path)
        assert (await browser.get(f"/claim/{text}")).status_code == 200
    assert (await browser.get("/database/nothing")).status_code == 404


async def test_a_project_whose_database_was_dropped_is_shown_without_one(pages_app: PagesApp) -> None:
    created = await create_instant_database(pages_app.services)
    async with pages_app.services.store.read() as rows:
        branch = await rows.branches.get_default(created.project_id)
    assert branch is not None
    async with pages_app.services.store.transaction() as rows:
        [known] = await rows.databases.list_in_branch(branch.id)
        await rows.databases.remove(known)
    assert "<dd>none</dd>" in (await pages_app.open_client().get(created.claim_path)).text
