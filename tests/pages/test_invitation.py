"""Invitations: shown by their link to whoever reads the mail, accepted by the address they are for."""

from typing import Any

import pytest

import world
from bough.control.invitations import Invitations, Invitee
from bough.control.organizations import Organizations
from bough.domain.organization import MemberRole, Organization
from bough.domain.user import User
from pages.front import PASSWORD, Front, Shown, new_address


async def _invited(front: Front, email: str, role: MemberRole = MemberRole.EDITOR) -> tuple[User, Organization, str]:
    """By whom, into what, and the path of the link that was mailed."""
    inviter = await front.account()
    desk = await front.desk(inviter)
    organization = await Organizations(desk).create("Looms & Sons")
    await Invitations(await front.desk(inviter)).create(organization, [Invitee(email, role)])
    text = (await front.letters_to(email))[-1]
    return inviter, organization, text[text.index("/invitation?token=") :].split()[0]


async def _role_in(front: Front, organization: Organization, email: str) -> MemberRole | None:
    async with front.parts.store.read() as rows:
        user = await rows.users.with_email(email)
        member = await rows.members.of_user(organization.id, user.id) if user else None
    found: Any = getattr(member, "member", member)
    return found.role if found else None


async def test_somebody_new_makes_an_account_and_joins(front: Front) -> None:
    email, browser = new_address(), front.browser()
    inviter, organization, link = await _invited(front, email)
    shown = await browser.get(link)
    assert shown.status_code == 200
    for word in (email, "Looms &amp; Sons", "editor", inviter.email):
        assert word in shown.text
    token = Shown(shown.text).value("token")
    refused = await browser.post("/invitation", token=token, name="Grace", password="short")
    assert refused.status_code == 400
    assert Shown(refused.text).value("name") == "Grace"
    answer = await browser.post("/invitation", token=token, name="Grace", password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, "/account")
    assert "Looms &amp; Sons" in (await browser.get("/account")).text
    assert await _role_in(front, organization, email) is MemberRole.EDITOR
    assert (await front.browser().get(link)).status_code == 404


async def test_somebody_who_signed_in_accepts_with_a_button(front: Front) -> None:
    person = await front.person()
    _inviter, organization, link = await _invited(front, person.user.email)
    shown = await person.browser.get(link)
    assert "password" not in {field.get("type") for field in Shown(shown.text).all("input")}
    answer = await person.browser.post("/invitation", token=Shown(shown.text).value("token"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/account?done=joined")
    assert await _role_in(front, organization, person.user.email) is MemberRole.EDITOR


async def test_somebody_who_has_an_account_signs_in_first_and_comes_back(front: Front) -> None:
    user, browser = await front.account(), front.browser()
    _inviter, organization, link = await _invited(front, user.email)
    shown = Shown((await browser.get(link)).text)
    assert "password" not in {field.get("type") for field in shown.all("input")}
    assert shown.value("next") == link
    await browser.get("/signin", params={"next": link})
    answer = await browser.post("/signin", email=user.email, password=PASSWORD, next=link)
    assert answer.headers["location"] == link
    assert await _role_in(front, organization, user.email) is None


async def test_nobody_accepts_with_the_link_of_an_account_without_signing_in(front: Front) -> None:
    user, browser = await front.account(), front.browser()
    _inviter, organization, link = await _invited(front, user.email)
    await browser.get(link)
    answer = await browser.post("/invitation", token=link.partition("=")[2], name="X", password="a new good password")
    assert answer.status_code == 403
    assert await _role_in(front, organization, user.email) is None
    await browser.signs_in(user)


async def test_another_person_is_told_for_whom_it_is_and_may_sign_out(front: Front) -> None:
    person, email = await front.person(), new_address()
    _inviter, organization, link = await _invited(front, email)
    shown = await person.browser.get(link)
    assert email in shown.text
    assert person.user.email in shown.text
    assert (await person.browser.post("/invitation", token=link.partition("=")[2])).status_code == 403
    assert await _role_in(front, organization, person.user.email) is None
    answer = await person.browser.post("/signout", next=link)
    assert answer.headers["location"] == link
    assert "Make my account and accept" in (await person.browser.get(link)).text


async def test_the_account_page_lists_invitations_and_accepts_them(front: Front) -> None:
    person = await front.person()
    inviter, organization, _link = await _invited(front, person.user.email, MemberRole.VIEWER)
    shown = await person.browser.get("/account")
    assert "Invitation to Looms &amp; Sons" in shown.text
    assert inviter.email in shown.text
    invitation = Shown(shown.text).value("invitation")
    answer = await person.browser.post("/account/invitations", invitation=invitation)
    assert (answer.status_code, answer.headers["location"]) == (303, "/account?done=joined")
    assert await _role_in(front, organization, person.user.email) is MemberRole.VIEWER
    assert (await person.browser.post("/account/invitations", invitation=invitation)).status_code == 404


@pytest.mark.parametrize("invitation", ["", "no id", "00000000-0000-4000-8000-00000000ffff"])
async def test_an_invitation_that_is_not_theirs_cannot_be_accepted(front: Front, invitation: str) -> None:
    person = await front.person()
    refused = await person.browser.post("/account/invitations", invitation=invitation)
    assert refused.status_code in (400, 404)
    assert 'id="organizations-problem"' in refused.text


async def test_where_the_operator_makes_accounts_somebody_new_is_told_to_ask(shared_platform: world.Platform) -> None:
    front, email = Front(shared_platform, sign_up="closed"), new_address()
    _inviter, organization, link = await _invited(front, email)
    browser = front.browser()
    shown = await browser.get(link)
    assert "by the operator" in shown.text
    assert "password" not in {field.get("type") for field in Shown(shown.text).all("input")}
    await browser.get("/signin")
    answer = await browser.post("/invitation", token=link.partition("=")[2], name="", password=PASSWORD)
    assert answer.status_code == 403
    assert await _role_in(front, organization, email) is None
