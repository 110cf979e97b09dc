"""Setting passwords: by a link in a mail, as the operator for the first time, or knowing the old one."""

import pytest

from bough.control import accounts
from bough.domain.link import Purpose
from bough.domain.user import OPERATOR
from pages.front import PASSWORD, Front, Shown, comparable, new_address

NEW = "another good password"


async def test_the_link_in_the_mail_sets_a_new_password_and_signs_out_all_others(front: Front) -> None:
    person, browser = await front.person(), front.browser()
    await browser.get("/forgot")
    assert (await browser.post("/forgot", email=person.user.email)).status_code == 200
    link = await front.link_to(person.user.email)
    shown = Shown((await browser.get(link)).text)
    answer = await browser.post("/reset", token=shown.value("token"), password=NEW)
    assert (answer.status_code, answer.headers["location"]) == (303, "/account")
    assert (await browser.get("/account")).status_code == 200
    assert (await person.browser.get("/account")).headers["location"] == "/signin"
    await front.browser().signs_in(person.user, NEW)
    again = front.browser()
    assert (await again.get(link)).status_code == 404
    await again.get("/signin")
    assert (await again.post("/reset", token=shown.value("token"), password=NEW)).status_code == 404


async def test_a_new_password_that_will_not_do_leaves_the_link_to_try_again(front: Front) -> None:
    user, browser = await front.account(), front.browser()
    await browser.get("/forgot")
    await browser.post("/forgot", email=user.email)
    link = await front.link_to(user.email)
    token = Shown((await browser.get(link)).text).value("token")
    refused = await browser.post("/reset", token=token, password="short")
    assert refused.status_code == 400
    assert Shown(refused.text).value("token") == token
    assert (await browser.post("/reset", token=token, password=NEW)).status_code == 303


async def test_known_and_unknown_addresses_are_answered_alike(front: Front) -> None:
    known, unknown, browser = (await front.account()).email, new_address(), front.browser()
    answers = []
    for email in (known, unknown):
        await browser.get("/forgot")
        answers.append(comparable(await browser.post("/forgot", email=email), email))
    assert answers[0] == answers[1]
    assert len(await front.letters_to(known)) == 1
    assert await front.letters_to(unknown) == []


async def test_what_is_no_address_is_said_beside_the_form(front: Front) -> None:
    browser = front.browser()
    await browser.get("/forgot")
    refused = await browser.post("/forgot", email="nobody at home")
    assert refused.status_code == 400
    assert Shown(refused.text).value("email") == "nobody at home"


async def test_the_operator_begins_with_an_address_and_a_password(front: Front) -> None:
    async with front.parts.store.transaction() as rows:
        operator = await rows.users.get(OPERATOR)
        assert operator is not None
        token = await accounts.add_link(rows, front.parts.keys, Purpose.WELCOME, operator.email, user=operator)
    taken, email, browser = (await front.account()).email, new_address(), front.browser()
    await browser.get(f"/welcome?token={token}")
    refused = await browser.post("/welcome", token=token, email=taken, password=NEW)
    assert refused.status_code == 409
    assert Shown(refused.text).value("email") == taken
    answer = await browser.post("/welcome", token=token, email=email, password=NEW)
    assert (answer.status_code, answer.headers["location"]) == (303, "/account")
    assert email in (await browser.get("/account")).text
    assert (await front.browser().get(f"/welcome?token={token}")).status_code == 404


async def test_a_link_of_one_kind_is_none_of_another(front: Front) -> None:
    user = await front.account()
    async with front.parts.store.transaction() as rows:
        token = await accounts.add_link(rows, front.parts.keys, Purpose.RESET, user.email, user=user)
    browser = front.browser()
    for path in ("/welcome", "/welcome/finish", "/invitation"):
        assert (await browser.get(f"{path}?token={token}")).status_code == 404
    assert (await browser.get(f"/reset?token={token}")).status_code == 200


async def test_who_knows_the_old_password_changes_it_and_stays_signed_in(front: Front) -> None:
    person, elsewhere = await front.person(), front.browser()
    await elsewhere.signs_in(person.user)
    answer = await person.browser.post("/account/password", old=PASSWORD, new=NEW)
    assert (answer.status_code, answer.headers["location"]) == (303, "/account?done=password")
    assert "The password is changed" in (await person.browser.get("/account?done=password")).text
    assert (await elsewhere.get("/account")).headers["location"] == "/signin"
    await front.browser().signs_in(person.user, NEW)


@pytest.mark.parametrize(("old", "new", "status"), [("not the password", NEW, 403), (PASSWORD, "short", 400)])
async def test_a_change_that_will_not_do_is_said_beside_the_form(front: Front, old: str, new: str, status: int) -> None:
    person = await front.person()
    refused = await person.browser.post("/account/password", old=old, new=new)
    assert refused.status_code == status
    assert 'id="password-problem"' in refused.text
    assert old not in refused.text
    await front.browser().signs_in(person.user)
