"""Claiming a database, page by page: what is shown, what each button does, and where the project ends up."""

from dataclasses import replace
from datetime import timedelta
from html import unescape

import pytest

from bough import clock
from bough.config import DEFAULT_PLANS
from bough.control import defaults
from bough.control.organizations import Organizations
from bough.domain.allowance import Fullness, TransferPeriod
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION, InstantStatus
from bough.domain.organization import Member, MemberRole, Organization
from bough.domain.user import User
from bough.ids import MemberId
from bough.store.audit import AuditQuestion
from pages.claiming import begun, claimed, instant, personal
from pages.front import Account, Front, Shown


async def _seen(person: Account, path: str) -> str:
    answer = await person.browser.get(path)
    assert answer.status_code == 200
    return " ".join(unescape(answer.text).split())


async def _joins(front: Front, user: User, role: MemberRole, name: str) -> Organization:
    """Somebody else's organization."""
    organization = await Organizations(await front.desk(await front.account())).create(name)
    member = Member(id=MemberId.new(), org_id=organization.id, user_id=user.id, role=role, joined_at=clock.now())
    async with front.parts.store.transaction() as rows:
        await rows.members.add(member)
    return organization


async def test_whoever_has_the_link_sees_what_it_leads_to_and_no_password(front: Front) -> None:
    made, browser = await instant(front.parts), front.browser()
    async with front.parts.store.transaction() as rows:
        branch = await rows.branches.default(made.project_id)
        assert branch is not None
        await rows.branches.set_size(branch.id, 31 * 1024**2 + 600_000)
    answer = await browser.get(made.path)
    assert answer.status_code == 200
    text = answer.text
    row = await made.row()
    for moment in (row.created_at, row.expires_at):
        assert f'datetime="{moment:%Y-%m-%dT%H:%M:%SZ}"' in text
    for word in (made.project_id, "<dd>17</dd>", "US East 2 (Ohio)", "neondb", "31.6 MB", "UNCLAIMED"):
        assert word in text
    for secret in (made.password, "postgresql://", row.digest, row.sealed_id):
        assert secret not in text
    assert (await made.seen()).status is InstantStatus.UNCLAIMED


async def test_who_comes_because_nothing_goes_on_is_told_why(front: Front) -> None:
    made, now = await instant(front.parts), clock.now()
    for words in ("It is full", "Nobody can connect"):
        assert words not in (await front.browser().get(made.path)).text
    async with front.parts.store.transaction() as rows:
        branch = await rows.branches.default(made.project_id)
        assert branch is not None
        await rows.allowances.set_fullness(branch.id, Fullness.FULL, 101 * 1024**2)
        period = TransferPeriod(project_id=made.project_id, began_at=now, bytes_before=0, is_over=True)
        await rows.allowances.put_period(period)
    text = (await front.browser().get(made.path)).text
    assert "It is full: unclaimed, it may store 100 MB." in text
    assert "Nobody can connect: unclaimed, it may transfer 1 GB" in text


async def test_a_claim_resets_what_was_transferred(front: Front) -> None:
    made, before = await instant(front.parts), clock.now()
    async with front.parts.store.transaction() as rows:
        period = TransferPeriod(project_id=made.project_id, began_at=before, bytes_before=0, is_over=True)
        await rows.allowances.put_period(period)
    await claimed(front, made, await front.account())
    async with front.parts.store.read() as rows:
        found = await rows.allowances.transferred(made.project_id)
    assert found is not None
    assert found.period is not None
    assert (found.period.bytes_before, found.period.is_over) == (found.moved, False)
    assert found.period.began_at > before


async def test_whoever_is_not_signed_in_is_asked_to_and_comes_back(front: Front) -> None:
    made, browser, user = await instant(front.parts), front.browser(), await front.account()
    links = [link["href"] for link in Shown((await browser.get(made.path)).text).all("a")]
    sign_in = f"/signin?next={made.path}"
    assert sign_in in links
    assert f"/signup?next={made.path}" in links
    assert Shown((await browser.get(sign_in)).text).value("next") == made.path
    answer = await browser.signs_in(user, next=made.path)
    assert answer.headers["location"] == made.path


async def test_a_claim_from_the_first_button_to_the_last(front: Front) -> None:
    made, person = await instant(front.parts), await front.person()
    own = await personal(front, person.user)
    assert "Claim this database" in await _seen(person, made.path)
    await begun(front, made, person)
    assert (await made.seen()).status is InstantStatus.CLAIMING
    text = await _seen(person, made.path)
    for word in ("does not expire", "512 MB of storage", "5 GB of transfer a month", f'value="{own.id}"'):
        assert word in text
    answer = await person.browser.post(f"{made.path}/confirm", org_id=own.id)
    assert (answer.status_code, answer.headers["location"]) == (303, made.path)
    for _ in range(2):  # it may be reloaded
        text = await _seen(person, made.path)
        assert "The database is yours" in text
        for word in (made.project_id, own.name, "/account", "connection string that you have goes on working"):
            assert word in text
    seen = await made.seen()
    assert (seen.status, seen.connection_string) == (InstantStatus.CLAIMED, None)
    account = await _seen(person, "/account")
    assert made.project_id in account
    assert made.uri in account


async def test_the_project_is_as_if_its_claimer_had_made_it(front: Front) -> None:
    made, user = await instant(front.parts), await front.account()
    before = await made.project()
    assert (before.org_id, before.history_retention_seconds) == (UNCLAIMED_ORGANIZATION, 0)
    own = await claimed(front, made, user)
    after = await made.project()
    assert (after.org_id, after.created_by) == (own.id, user.id)
    assert after.history_retention_seconds == defaults.HISTORY_SECONDS
    assert after.updated_at > before.updated_at
    async with front.parts.store.read() as rows:
        branches = await rows.branches.of_project(made.project_id)
        row = await made.row()
    assert [branch.created_by for branch in branches] == [user.id]
    assert (row.claimed_by, row.expires_at) == (user.id, (await made.seen()).database.expires_at)


async def test_a_plan_that_keeps_less_history_gives_less(front: Front) -> None:
    plans = {name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}
    short = Front(front.platform, plans={**plans, "free": {**plans["free"], "history_seconds": 60}})
    made = await instant(short.parts)
    await claimed(short, made, await short.account())
    assert (await made.project()).history_retention_seconds == 60


async def test_only_organizations_that_may_have_it_are_offered_and_their_own_comes_first(front: Front) -> None:
    made, person = await instant(front.parts), await front.person()
    looms = await _joins(front, person.user, MemberRole.MEMBER, "An & Co looms")
    for role in (MemberRole.EDITOR, MemberRole.VIEWER, MemberRole.COLLABORATOR):
        await _joins(front, person.user, role, "not for them")
    async with front.parts.store.transaction() as rows:
        await rows.organizations.save(replace(looms, plan="unlimited"))
    await begun(front, made, person)
    answer = await person.browser.get(made.path)
    options = [option["value"] for option in Shown(answer.text).all("option")]
    assert options == [(await personal(front, person.user)).id, looms.id]
    assert "An &amp; Co looms</strong>: 16 TB of storage, 1 PB of transfer" in answer.text
    await person.browser.post(f"{made.path}/confirm", org_id=looms.id)
    assert (await made.project()).org_id == looms.id
    assert "An & Co looms" in await _seen(person, made.path)


async def test_buttons_that_are_pressed_twice_do_no_more_than_once(front: Front) -> None:
    made, person = await instant(front.parts), await front.person()
    own, other = await personal(front, person.user), await _joins(front, person.user, MemberRole.MEMBER, "other")
    for step in ("start", "start", "cancel", "cancel", "start"):
        answer = await person.browser.post(f"{made.path}/{step}")
        assert (answer.status_code, answer.headers["location"]) == (303, made.path)
    for org_id in (own.id, own.id, other.id):
        answer = await person.browser.post(f"{made.path}/confirm", org_id=org_id)
        assert (answer.status_code, answer.headers["location"]) == (303, made.path)
    for step in ("start", "cancel"):
        assert (await person.browser.post(f"{made.path}/{step}")).headers["location"] == made.path
    assert (await made.project()).org_id == own.id
    assert (await made.seen()).status is InstantStatus.CLAIMED


async def test_a_claim_that_is_cancelled_is_open_to_others(front: Front) -> None:
    made, person, other = await instant(front.parts), await front.person(), await front.person()
    await begun(front, made, person)
    await other.browser.post(f"{made.path}/cancel")  # not theirs to cancel
    assert (await made.seen()).status is InstantStatus.CLAIMING
    await person.browser.post(f"{made.path}/cancel")
    assert (await made.seen()).status is InstantStatus.UNCLAIMED
    await begun(front, made, other)
    assert "Choose where it goes" in await _seen(other, made.path)


async def test_a_claim_that_is_not_finished_is_open_to_others_after_a_quarter_of_an_hour(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, person, other = await instant(front.parts), await front.person(), await front.person()
    own = await personal(front, person.user)
    await begun(front, made, person)
    until = (await made.row()).claiming_until
    assert until is not None
    assert f"{until:%-d %B %Y, %H:%M} UTC" in await _seen(other, made.path)
    with monkeypatch.context() as later:
        later.setattr(clock, "now", lambda: until - timedelta(microseconds=1))
        assert (await made.seen()).status is InstantStatus.CLAIMING
        later.setattr(clock, "now", lambda: until)
        assert (await made.seen()).status is InstantStatus.UNCLAIMED
        late = await person.browser.post(f"{made.path}/confirm", org_id=own.id)
        assert late.status_code == 409
        assert "The time for this claim is over" in late.text
        await begun(front, made, other)
        late = await person.browser.post(f"{made.path}/confirm", org_id=own.id)
        assert late.status_code == 409
        assert "Somebody else is claiming it" in late.text
    assert (await made.project()).org_id == UNCLAIMED_ORGANIZATION


async def test_a_claim_that_began_in_time_may_end_after_the_expiration(front: Front) -> None:
    made, person = await instant(front.parts), await front.person()
    own = await personal(front, person.user)
    await begun(front, made, person)
    await made.change(expires_at=clock.now())
    answer = await person.browser.post(f"{made.path}/confirm", org_id=own.id)
    assert answer.status_code == 303
    assert (await made.project()).org_id == own.id


async def test_the_audit_tells_of_a_claim_on_both_sides_and_never_the_id(front: Front) -> None:
    made, person = await instant(front.parts), await front.person()
    own = await personal(front, person.user)
    await begun(front, made, person)
    for step in ("cancel", "cancel", "start"):
        await person.browser.post(f"{made.path}/{step}")
    for _ in range(2):
        await person.browser.post(f"{made.path}/confirm", org_id=own.id)
    async with front.parts.store.read() as rows:
        lines = await rows.audit.page(AuditQuestion(project_id=made.project_id), 100, None)
    told = [(line.action, line.org_id) for line in reversed(lines) if line.user_id == person.user.id]
    assert told == [
        ("begin_claim", UNCLAIMED_ORGANIZATION),
        ("cancel_claim", UNCLAIMED_ORGANIZATION),
        ("begin_claim", UNCLAIMED_ORGANIZATION),
        ("claim_database", UNCLAIMED_ORGANIZATION),
        ("claim_database", own.id),
    ]
    assert lines[0].details == {"source_org_id": UNCLAIMED_ORGANIZATION, "destination_org_id": own.id}
    assert made.id not in str(lines)


async def test_the_address_that_published_tools_know_leads_to_the_page(front: Front) -> None:
    made, browser = await instant(front.parts), front.browser()
    for text in (made.id, made.id.upper(), made.id.replace("-", "")):
        answer = await browser.get(f"/database/{text}")
        assert (answer.status_code, answer.headers["location"]) == (303, made.path)
        assert (await browser.get(f"/claim/{text}")).status_code == 200
    assert (await browser.get("/database/nothing")).status_code == 404


async def test_a_project_whose_database_was_dropped_is_shown_without_one(front: Front) -> None:
    made = await instant(front.parts)
    async with front.parts.store.read() as rows:
        branch = await rows.branches.default(made.project_id)
    assert branch is not None
    async with front.parts.store.transaction() as rows:
        [known] = await rows.databases.of_branch(branch.id)
        await rows.databases.remove(known)
    assert "<dd>none</dd>" in (await front.browser().get(made.path)).text
