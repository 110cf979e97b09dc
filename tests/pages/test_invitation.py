"""The invitation page: its link, and who can accept."""

from typing import Any

import pytest

from bough.control.people.invitations import Invitee, create_invitations
from bough.control.people.organizations import create_organization
from bough.domain.organization import MemberRole, Organization
from bough.domain.user import User
from support import platform
from support.pages_app import PASSWORD, PagesApp, ParsedPage, make_email


async def _invite(app: PagesApp, email: str, role: MemberRole = MemberRole.EDITOR) -> tuple[User, Organization, str]:
    """Returns the inviter, the organization and the path of the mailed link."""
    inviter = await app.create_user()
    context = await app.create_context(inviter)
    organization = await create_organization(context, "Looms & Sons")
    await create_invitations(await app.create_context(inviter), organization, [Invitee(email, role)])
    text = (await app.list_mails(email))[-1]
    return inviter, organization, text[text.index("/invitation?token=") :].split()[0]


async def _get_role(app: PagesApp, organization: Organization, email: str) -> MemberRole | None:
    async with app.services.store.read() as rows:
        user = await rows.users.get_by_email(email)
        member = await rows.members.get_by_user(organization.id, user.id) if user else None
    member_row: Any = getattr(member, "member", member)
    return member_row.role if member_row else None


async def test_somebody_new_makes_an_account_and_joins(pages_app: PagesApp) -> None:
    email, browser = make_email(), pages_app.open_client()
    inviter, organization, link = await _invite(pages_app, email)
    shown = await browser.get(link)
    assert shown.status_code == 200
    for word in (email, "Looms &amp; Sons", "editor", inviter.email):
        assert word in shown.text
    token = ParsedPage(shown.text).field_value("token")
    rejected = await browser.post("/invitation", token=token, name="Grace", password="short")
    assert rejected.status_code == 400
    assert ParsedPage(rejected.text).field_value("name") == "Grace"
    response = await browser.post("/invitation", token=token, name="Grace", password=PASSWORD)
    assert (response.status_code, response.headers["location"]) == (303, "/account")
    assert "Looms &amp; Sons" in (await browser.get("/account")).text
    assert await _get_role(pages_app, organization, email) is MemberRole.EDITOR
    assert (await pages_app.open_client().get(link)).status_code == 404


async def test_somebody_who_signed_in_accepts_with_a_button(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    _inviter, organization, link = await _invite(pages_app, person.user.email)
    shown = await person.client.get(link)
    assert "password" not in {field.get("type") for field in ParsedPage(shown.text).find_all("input")}
    response = await person.client.post("/invitation", token=ParsedPage(shown.text).field_value("token"))
    assert (response.status_code, response.headers["location"]) == (303, "/account?done=joined")
    assert await _get_role(pages_app, organization, person.user.email) is MemberRole.EDITOR


async def test_somebody_who_has_an_account_signs_in_first_and_comes_back(pages_app: PagesApp) -> None:
    user, browser = await pages_app.create_user(), pages_app.open_client()
    _inviter, organization, link = await _invite(pages_app, user.email)
    shown = ParsedPage((await browser.get(link)).text)
    assert "password" not in {field.get("type") for field in shown.find_all("input")}
    assert shown.field_value("next") == link
    await browser.get("/signin", params={"next": link})
    response = await browser.post("/signin", email=user.email, password=PASSWORD, next=link)
    assert response.headers["location"] == link
    assert await _get_role(pages_app, organization, user.email) is None


async def test_nobody_accepts_with_the_link_of_an_account_without_signing_in(pages_app: PagesApp) -> None:
    user, browser = await pages_app.create_user(), pages_app.open_client()
    _inviter, organization, link = await _invite(pages_app, user.email)
    await browser.get(link)
    response = await browser.post("/invitation", token=link.partition("=")[2], name="X", password="a new good password")
    assert response.status_code == 403
    assert await _get_role(pages_app, organization, user.email) is None
    await browser.sign_in(user)


async def test_another_person_is_told_for_whom_it_is_and_may_sign_out(pages_app: PagesApp) -> None:
    person, email = await pages_app.sign_in_new_user(), make_email()
    _inviter, organization, link = await _invite(pages_app, email)
    shown = await person.client.get(link)
    assert email in shown.text
    assert person.user.email in shown.text
    assert (await person.client.post("/invitation", token=link.partition("=")[2])).status_code == 403
    assert await _get_role(pages_app, organization, person.user.email) is None
    response = await person.client.post("/signout", next=link)
    assert response.headers["location"] == link
    assert "Create account and accept" in (await person.client.get(link)).text


async def test_the_account_page_lists_invitations_and_accepts_them(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    inviter, organization, _link = await _invite(pages_app, person.user.email, MemberRole.VIEWER)
    shown = await person.client.get("/account")
    assert "Invitation to Looms &amp; Sons" in shown.text
    assert inviter.email in shown.text
    invitation = ParsedPage(shown.text).field_value("invitation")
    response = await person.client.post("/account/invitations", invitation=invitation)
    assert (response.status_code, response.headers["location"]) == (303, "/account?done=joined")
    assert await _get_role(pages_app, organization, person.user.email) is MemberRole.VIEWER
    assert (await person.client.post("/account/invitations", invitation=invitation)).status_code == 404


@pytest.mark.parametrize("invitation", ["", "no id", "00000000-0000-4000-8000-00000000ffff"])
async def test_an_invitation_that_is_not_theirs_cannot_be_accepted(pages_app: PagesApp, invitation: str) -> None:
    person = await pages_app.sign_in_new_user()
    rejected = await person.client.post("/account/invitations", invitation=invitation)
    assert rejected.status_code in (400, 404)
    assert 'id="organizations-problem"' in rejected.text


async def test_where_the_operator_makes_accounts_somebody_new_is_told_to_ask(
    shared_platform: platform.Platform,
) -> None:
    app, email = PagesApp(shared_platform, sign_up="closed"), make_email()
    _inviter, organization, link = await _invite(app, email)
    browser = app.open_client()
    shown = await browser.get(link)
    assert "Only the operator" in shown.text
    assert "password" not in {field.get("type") for field in ParsedPage(shown.text).find_all("input")}
    await browser.get("/signin")
    response = await browser.post("/invitation", token=link.partition("=")[2], name="", password=PASSWORD)
    assert response.status_code == 403
    assert await _get_role(app, organization, email) is None
