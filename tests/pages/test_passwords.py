"""Setting a password: with a mailed link, as the operator for the first time, or with the old password."""

import pytest

from bough.control.people import accounts
from bough.domain.one_time_link import LinkPurpose
from bough.domain.user import OPERATOR
from support.pages_app import PASSWORD, PagesApp, ParsedPage, make_email, normalize_response

NEW = "another good password"


async def test_the_link_in_the_mail_sets_a_new_password_and_signs_out_all_others(pages_app: PagesApp) -> None:
    person, browser = await pages_app.sign_in_new_user(), pages_app.open_client()
    await browser.get("/forgot")
    assert (await browser.post("/forgot", email=person.user.email)).status_code == 200
    link = await pages_app.get_mailed_link(person.user.email)
    shown = ParsedPage((await browser.get(link)).text)
    response = await browser.post("/reset", token=shown.field_value("token"), password=NEW)
    assert (response.status_code, response.headers["location"]) == (303, "/account")
    assert (await browser.get("/account")).status_code == 200
    assert (await person.client.get("/account")).headers["location"] == "/signin"
    await pages_app.open_client().sign_in(person.user, NEW)
    again = pages_app.open_client()
    assert (await again.get(link)).status_code == 404
    await again.get("/signin")
    assert (await again.post("/reset", token=shown.field_value("token"), password=NEW)).status_code == 404


async def test_a_new_password_that_will_not_do_leaves_the_link_to_try_again(pages_app: PagesApp) -> None:
    user, browser = await pages_app.create_user(), pages_app.open_client()
    await browser.get("/forgot")
    await browser.post("/forgot", email=user.email)
    link = await pages_app.get_mailed_link(user.email)
    token = ParsedPage((await browser.get(link)).text).field_value("token")
    rejected = await browser.post("/reset", token=token, password="short")
    assert rejected.status_code == 400
    assert ParsedPage(rejected.text).field_value("token") == token
    assert (await browser.post("/reset", token=token, password=NEW)).status_code == 303


async def test_known_and_unknown_addresses_are_answered_alike(pages_app: PagesApp) -> None:
    known, unknown, browser = (await pages_app.create_user()).email, make_email(), pages_app.open_client()
    responses = []
    for email in (known, unknown):
        await browser.get("/forgot")
        responses.append(normalize_response(await browser.post("/forgot", email=email), email))
    assert responses[0] == responses[1]
    assert len(await pages_app.list_mails(known)) == 1
    assert await pages_app.list_mails(unknown) == []


async def test_what_is_no_address_is_said_beside_the_form(pages_app: PagesApp) -> None:
    browser = pages_app.open_client()
    await browser.get("/forgot")
    rejected = await browser.post("/forgot", email="nobody at home")
    assert rejected.status_code == 400
    assert ParsedPage(rejected.text).field_value("email") == "nobody at home"


async def test_the_operator_begins_with_an_address_and_a_password(pages_app: PagesApp) -> None:
    async with pages_app.services.store.transaction() as rows:
        operator = await rows.users.get(OPERATOR)
        assert operator is not None
        token = await accounts.add_link(
            rows, pages_app.services.keys, LinkPurpose.WELCOME, operator.email, user=operator
        )
    used_email, email, browser = (await pages_app.create_user()).email, make_email(), pages_app.open_client()
    await browser.get(f"/welcome?token={token}")
    rejected = await browser.post("/welcome", token=token, email=used_email, password=NEW)
    assert rejected.status_code == 409
    assert ParsedPage(rejected.text).field_value("email") == used_email
    response = await browser.post("/welcome", token=token, email=email, password=NEW)
    assert (response.status_code, response.headers["location"]) == (303, "/account")
    assert email in (await browser.get("/account")).text
    assert (await pages_app.open_client().get(f"/welcome?token={token}")).status_code == 404


async def test_a_link_of_one_kind_is_none_of_another(pages_app: PagesApp) -> None:
    user = await pages_app.create_user()
    async with pages_app.services.store.transaction() as rows:
        token = await accounts.add_link(rows, pages_app.services.keys, LinkPurpose.RESET, user.email, user=user)
    browser = pages_app.open_client()
    for path in ("/welcome", "/welcome/finish", "/invitation"):
        assert (await browser.get(f"{path}?token={token}")).status_code == 404
    assert (await browser.get(f"/reset?token={token}")).status_code == 200


async def test_who_knows_the_old_password_changes_it_and_stays_signed_in(pages_app: PagesApp) -> None:
    person, elsewhere = await pages_app.sign_in_new_user(), pages_app.open_client()
    await elsewhere.sign_in(person.user)
    response = await person.client.post("/account/password", old=PASSWORD, new=NEW)
    assert (response.status_code, response.headers["location"]) == (303, "/account?done=password")
    assert "The password has been changed" in (await person.client.get("/account?done=password")).text
    assert (await elsewhere.get("/account")).headers["location"] == "/signin"
    await pages_app.open_client().sign_in(person.user, NEW)


@pytest.mark.parametrize(("old", "new", "status"), [("not the password", NEW, 403), (PASSWORD, "short", 400)])
async def test_a_change_that_will_not_do_is_said_beside_the_form(
    pages_app: PagesApp, old: str, new: str, status: int
) -> None:
    person = await pages_app.sign_in_new_user()
    rejected = await person.client.post("/account/password", old=old, new=new)
    assert rejected.status_code == status
    assert 'id="password-problem"' in rejected.text
    assert old not in rejected.text
    await pages_app.open_client().sign_in(person.user)
