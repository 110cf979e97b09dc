"""Claims that go nowhere: wrong ids, databases of others, no right, no room, forged forms; and no trace of ids."""

from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

import world
from bough import clock
from bough.config import DEFAULT_PLANS
from bough.control.claims import GONE, Claims
from bough.control.organizations import Organizations
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION, InstantStatus
from bough.domain.organization import Member, MemberRole
from bough.errors import Denied, Taken
from bough.ids import InstantId, MemberId
from pages.claiming import Instant, begun, claimed, instant, personal
from pages.front import Account, Front
from stores import an_operation

STEPS = ("start", "confirm", "cancel")
NO_IDS = ["x", "0", "a" * 32 + "0", "%00", "é", "00000000-0000-7000-8000-00000000000g", "{}", " "]


async def _expired(front: Front) -> Instant:
    made = await instant(front.parts)
    await made.change(expires_at=clock.now())
    return made


async def _deleted(front: Front) -> Instant:
    """By whoever claimed it."""
    made = await instant(front.parts)
    await claimed(front, made, await front.account())
    project = await made.project()
    async with front.parts.store.transaction() as rows:
        await rows.projects.save(replace(project, deleted_at=clock.now()))
    return made


async def test_wrong_expired_and_deleted_ids_have_one_page(front: Front) -> None:
    person = await front.person()
    gone = [InstantId.new(), (await _expired(front)).id, (await _deleted(front)).id, *NO_IDS]
    pages = set()
    for text in gone:
        answer = await person.browser.get(f"/claim/{text}")
        assert answer.status_code == 404, text
        assert GONE in answer.text
        pages.add(answer.text)
        for step in STEPS:
            refused = await person.browser.post(f"/claim/{text}/{step}", org_id="org-any")
            assert (refused.status_code, refused.text) == (404, answer.text), (text, step)
    assert len(pages) == 1


async def test_strangers_are_told_the_same(front: Front) -> None:
    texts = {(await front.browser().get(f"/claim/{text}")).text for text in (InstantId.new(), "x")}
    assert len(texts) == 1
    assert GONE in texts.pop()


async def test_a_database_that_is_somebodys_says_so_and_no_more(front: Front) -> None:
    made, owner, other = await instant(front.parts), await front.account(), await front.person()
    own = await claimed(front, made, owner)
    for browser in (front.browser(), other.browser):
        answer = await browser.get(made.path)
        assert answer.status_code == 200
        assert "was claimed already" in answer.text
        for private in (owner.email, own.name, made.project_id, made.password):
            assert f">{private}<" not in answer.text
    for step in ("start", "confirm"):
        refused = await other.browser.post(f"{made.path}/{step}", org_id=(await personal(front, other.user)).id)
        assert refused.status_code == 409
        assert "was claimed already" in refused.text
    assert (await made.project()).org_id == own.id


async def test_a_database_that_somebody_else_is_claiming_says_until_when(front: Front) -> None:
    made, first, second = await instant(front.parts), await front.person(), await front.person()
    await begun(front, made, first)
    shown = await second.browser.get(made.path)
    assert shown.status_code == 200
    assert "Somebody else is claiming it" in shown.text
    assert first.user.email not in shown.text
    org_id = (await personal(front, second.user)).id
    for step in ("start", "confirm"):
        refused = await second.browser.post(f"{made.path}/{step}", org_id=org_id)
        assert refused.status_code == 409
        assert "Somebody else is claiming it" in refused.text
    own = await personal(front, first.user)
    assert (await first.browser.post(f"{made.path}/confirm", org_id=own.id)).status_code == 303


async def test_nobody_confirms_what_they_did_not_begin(front: Front) -> None:
    made, person = await instant(front.parts), await front.person()
    await person.browser.get(made.path)
    refused = await person.browser.post(f"{made.path}/confirm", org_id=(await personal(front, person.user)).id)
    assert refused.status_code == 409
    assert (await made.seen()).status is InstantStatus.UNCLAIMED


@pytest.mark.parametrize(
    ("whose", "status"),
    [("viewer's", 403), ("stranger's", 400), ("unclaimed", 400), ("no-such-one", 400), ("No Id!", 400), ("", 400)],
)
async def test_an_organization_that_may_not_have_it_is_refused_beside_the_form(
    front: Front, whose: str, status: int
) -> None:
    made, person, other = await instant(front.parts), await front.person(), await front.account()
    org_id = {"unclaimed": UNCLAIMED_ORGANIZATION, "stranger's": (await personal(front, other)).id}.get(whose, whose)
    if whose == "viewer's":
        organization = await Organizations(await front.desk(other)).create("Looms")
        org_id = organization.id
        member = Member(
            id=MemberId.new(),
            org_id=org_id,
            user_id=person.user.id,
            role=MemberRole.VIEWER,
            joined_at=clock.now(),
        )
        async with front.parts.store.transaction() as rows:
            await rows.members.add(member)
    await begun(front, made, person)
    refused = await person.browser.post(f"{made.path}/confirm", org_id=org_id)
    assert refused.status_code == status
    assert 'id="problem"' in refused.text
    assert f"{made.path}/confirm" in refused.text
    assert (await made.project()).org_id == UNCLAIMED_ORGANIZATION
    assert (await made.seen()).status is InstantStatus.CLAIMING


async def test_an_organization_without_room_is_refused_beside_the_form_and_another_can_be_chosen(front: Front) -> None:
    plans = {name: plan.model_dump() for name, plan in DEFAULT_PLANS.items()}
    small = Front(front.platform, plans={**plans, "free": {**plans["free"], "projects": 0}})
    made, person = await instant(small.parts), await small.person()
    own = await personal(small, person.user)
    team = await Organizations(await small.desk(person.user)).create("Team")
    async with small.parts.store.transaction() as rows:
        await rows.organizations.save(replace(team, plan="unlimited"))
    await begun(small, made, person)
    before = await made.project()
    refused = await person.browser.post(f"{made.path}/confirm", org_id=own.id)
    assert refused.status_code == 406
    assert "nothing was moved" in refused.text
    assert f'value="{own.id}" selected' in refused.text
    assert await made.project() == before
    assert (await person.browser.post(f"{made.path}/confirm", org_id=team.id)).status_code == 303
    assert (await made.project()).org_id == team.id


async def test_a_right_that_was_taken_a_moment_ago_counts_no_more(front: Front) -> None:
    made, person, admin = await instant(front.parts), await front.person(), await front.account()
    organization = await Organizations(await front.desk(admin)).create("Looms")
    member = Member(
        id=MemberId.new(),
        org_id=organization.id,
        user_id=person.user.id,
        role=MemberRole.MEMBER,
        joined_at=clock.now(),
    )
    async with front.parts.store.transaction() as rows:
        await rows.members.add(member)
    await begun(front, made, person)
    desk = await front.desk(person.user)  # as they were when they pressed the button
    async with front.parts.store.transaction() as rows:
        await rows.members.set_role(member, MemberRole.VIEWER)
    with pytest.raises(Denied, match="may not create projects"):
        await Claims(desk).complete(made.id, organization.id)
    assert (await made.project()).org_id == UNCLAIMED_ORGANIZATION


async def test_work_on_the_project_is_waited_for_and_then_named(front: Front) -> None:
    made, person = await instant(front.parts), await front.person()
    own = await personal(front, person.user)
    await begun(front, made, person)
    async with front.parts.store.transaction() as rows:
        await rows.operations.add(an_operation(made.project_id, due_at=clock.now() + timedelta(days=1)))
    refused = await person.browser.post(f"{made.path}/confirm", org_id=own.id)
    assert refused.status_code == 423
    assert "try again in a moment" in refused.text
    assert int(refused.headers["retry-after"]) >= 1
    assert (await made.seen()).status is InstantStatus.CLAIMING


async def test_forms_of_whoever_is_not_signed_in_change_nothing_and_lead_to_the_page(front: Front) -> None:
    made, browser = await instant(front.parts), front.browser()
    await browser.get(made.path)
    await browser.get("/signin")
    for step in STEPS:
        answer = await browser.post(f"{made.path}/{step}", org_id="org-any")
        assert (answer.status_code, answer.headers["location"]) == (303, made.path)
    assert (await made.seen()).status is InstantStatus.UNCLAIMED


@pytest.mark.parametrize("forgery", ["another page", "another token", "no token"])
async def test_forged_forms_claim_nothing(front: Front, forgery: str) -> None:
    made, person = await instant(front.parts), await front.person()
    own = await personal(front, person.user)
    await _forges(front, person, forgery, f"{made.path}/start")
    assert (await made.seen()).status is InstantStatus.UNCLAIMED
    await begun(front, made, person)
    before = await made.row()
    for step in ("cancel", "confirm"):
        await _forges(front, person, forgery, f"{made.path}/{step}", org_id=own.id)
    assert await made.row() == before
    assert (await made.project()).org_id == UNCLAIMED_ORGANIZATION


async def _forges(front: Front, person: Account, forgery: str, path: str, **fields: str) -> None:
    token = {"another page": person.browser.form_token, "no token": ""}.get(forgery)
    if token is None:
        token = (await front.person()).browser.form_token
    headers = {"Origin": "http://evil.example"} if forgery == "another page" else None
    answer = await person.browser.post(path, headers, **{"form_token": token, **fields})
    assert answer.status_code == 403
    assert "nothing was changed" in answer.text


async def test_looking_changes_nothing(front: Front) -> None:
    made, person = await instant(front.parts), await front.person()
    before = await made.row(), await made.project()
    for browser in (person.browser, front.browser()):
        for path in (made.path, f"/database/{made.id}"):
            await browser.get(path)
            assert (await browser.client.head(path)).status_code in (200, 303)
        for step in STEPS:
            assert (await browser.get(f"{made.path}/{step}")).status_code == 405
    assert (await made.row(), await made.project()) == before


async def test_guessing_is_slowed_down(front: Front) -> None:
    browser = front.browser()
    answers = [(await browser.get(f"/claim/{InstantId.new()}")).status_code for _ in range(65)]
    assert answers[0] == 404
    assert answers[-1] == 429


async def test_no_visit_leaves_an_id_in_the_log(front: Front) -> None:
    made, person = await instant(front.parts), await front.person()
    with capture_logs() as lines:
        for browser in (front.browser(), person.browser):
            for path in (made.path, f"/database/{made.id}", f"/signin?next={made.path}", f"/claim/{made.id}/start"):
                await browser.get(path)
        await begun(front, made, person)
        for step in ("cancel", "start"):
            await person.browser.post(f"{made.path}/{step}")
        await person.browser.post(f"{made.path}/confirm", org_id=(await personal(front, person.user)).id)
        await person.browser.get(made.path)
    assert [line["status"] for line in lines if line["event"] == "request"].count(303) >= 5
    assert made.id not in str(lines)
    assert made.id.replace("-", "") not in str(lines)


async def test_the_one_who_comes_second_is_told_by_control_too(front: Front) -> None:
    made, owner, other = await instant(front.parts), await front.account(), await front.account()
    await claimed(front, made, owner)
    with pytest.raises(Taken, match="claimed already"):
        await Claims(await front.desk(other)).begin(made.id)


@pytest.mark.parametrize(("sign_up", "words"), [("invitation", "by invitation"), ("closed", "by the operator")])
async def test_where_nobody_may_sign_up_the_page_says_what_to_do(
    shared_platform: world.Platform, sign_up: str, words: str
) -> None:
    front = Front(shared_platform, sign_up=sign_up)
    made = await instant(front.parts)
    text = (await front.browser().get(made.path)).text
    assert words in text
    assert "/signup" not in text
    assert f"/signin?next={made.path}" in text
