"""Signing up on the way to a claim: the way back survives the mail, and leads nowhere else."""

import pytest

from bough.ids import InstantId
from bough.pages import way_back
from pages.claiming import instant
from pages.front import PASSWORD, Front, Shown, new_address

ID = InstantId("0193e0f0-0000-7000-8000-000000000001")
ELSEWHERE = [
    f"//evil.example/claim/{ID}",
    f"https://evil.example/claim/{ID}",
    f"/claim/{ID}/../../evil",
    f"/claim/{ID}/start",
    f"/claim/{ID}?next=//evil.example",
    f"/claim/{ID}@evil.example",
    f"/claim/{ID}\n",
    f"/claim/{ID}%0d%0aSet-Cookie:%20a=b",
    f"/claim//{ID}",
    f"/claim/{ID[:-1]}",
    f"/claim/{ID}0",
    "/claim/evil.example",
    "/claim/",
    f"/database/{ID}",
]


def test_a_claim_is_a_way_back() -> None:
    assert way_back.ours(way_back.claim(ID)) == f"/claim/{ID}"


@pytest.mark.parametrize("path", ELSEWHERE)
def test_what_only_looks_like_a_claim_is_none(path: str) -> None:
    assert way_back.ours(path) == way_back.ACCOUNT


async def test_somebody_new_signs_up_and_comes_back_to_the_claim(front: Front) -> None:
    made, email, browser = await instant(front.parts), new_address(), front.browser()
    shown = Shown((await browser.get(f"/signup?next={made.path}")).text)
    assert shown.hidden("next") == made.path
    assert f"/signin?next={made.path}" in [link["href"] for link in shown.all("a")]
    refused = await browser.post("/signup", email="no address", next=made.path)
    assert Shown(refused.text).hidden("next") == made.path
    sent = await browser.post("/signup", email=email, next=made.path)
    assert f"/signup?next={made.path}" in [link["href"] for link in Shown(sent.text).all("a")]
    elsewhere = front.browser()  # mails are read with other browsers, too
    link = await front.link_to(email)
    finish = Shown((await elsewhere.get(link)).text)
    token = finish.hidden("token")
    assert finish.hidden("next") == made.path
    again = await elsewhere.post("/welcome/finish", token=token, next=made.path, name="Grace", password="short")
    assert Shown(again.text).hidden("next") == made.path
    answer = await elsewhere.post("/welcome/finish", token=token, next=made.path, name="Grace", password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, made.path)
    assert "Claim this database" in (await elsewhere.get(made.path)).text


async def test_somebody_who_forgot_that_they_have_an_account_comes_back_too(front: Front) -> None:
    made, user, browser = await instant(front.parts), await front.account(), front.browser()
    await browser.get(f"/signup?next={made.path}")
    await browser.post("/signup", email=user.email, next=made.path)
    assert await front.link_to(user.email) == f"/signin?next={made.path}"


async def test_without_a_way_back_mails_are_as_they_were(front: Front) -> None:
    known, unknown, browser = await front.account(), new_address(), front.browser()
    for email in (known.email, unknown):
        await browser.get("/signup")
        await browser.post("/signup", email=email)
        assert "next=" not in await front.link_to(email)


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", f"/claim/{ID}@evil.example"])
async def test_signing_up_goes_on_to_no_other_place(front: Front, path: str) -> None:
    email, browser = new_address(), front.browser()
    assert Shown((await browser.get("/signup", params={"next": path})).text).hidden("next") == way_back.ACCOUNT
    assert "evil" not in (await browser.post("/signup", email=email, next=path)).text
    link = await front.link_to(email)
    assert "evil" not in link
    finish = Shown((await browser.get(f"{link}&next={path}")).text)
    assert finish.hidden("next") == way_back.ACCOUNT
    token = finish.hidden("token")
    answer = await browser.post("/welcome/finish", token=token, next=path, name="Grace", password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, way_back.ACCOUNT)
