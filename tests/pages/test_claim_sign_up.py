"""Signing up during a claim: the return path survives the mail and cannot lead elsewhere."""

import pytest

from bough.ids import InstantId
from bough.pages import return_paths
from pages.instant_databases import create_instant_database
from support.pages_app import PASSWORD, PagesApp, ParsedPage, make_email

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
    assert return_paths.sanitize_return_path(return_paths.claim_path(ID)) == f"/claim/{ID}"


@pytest.mark.parametrize("path", ELSEWHERE)
def test_what_only_looks_like_a_claim_is_none(path: str) -> None:
    assert return_paths.sanitize_return_path(path) == return_paths.ACCOUNT_PATH


async def test_somebody_new_signs_up_and_comes_back_to_the_claim(pages_app: PagesApp) -> None:
    created, email, browser = await create_instant_database(pages_app.services), make_email(), pages_app.open_client()
    shown = ParsedPage((await browser.get(f"/signup?next={created.claim_path}")).text)
    assert shown.hidden_value("next") == created.claim_path
    assert f"/signin?next={created.claim_path}" in [link["href"] for link in shown.find_all("a")]
    rejected = await browser.post("/signup", email="no address", next=created.claim_path)
    assert ParsedPage(rejected.text).hidden_value("next") == created.claim_path
    sent = await browser.post("/signup", email=email, next=created.claim_path)
    assert f"/signup?next={created.claim_path}" in [link["href"] for link in ParsedPage(sent.text).find_all("a")]
    elsewhere = pages_app.open_client()  # the mail may be opened in another browser
    link = await pages_app.get_mailed_link(email)
    finish = ParsedPage((await elsewhere.get(link)).text)
    token = finish.hidden_value("token")
    assert finish.hidden_value("next") == created.claim_path
    again = await elsewhere.post(
        "/welcome/finish", token=token, next=created.claim_path, name="Grace", password="short"
    )
    assert ParsedPage(again.text).hidden_value("next") == created.claim_path
    response = await elsewhere.post(
        "/welcome/finish", token=token, next=created.claim_path, name="Grace", password=PASSWORD
    )
    assert (response.status_code, response.headers["location"]) == (303, created.claim_path)
    assert "Claim this database" in (await elsewhere.get(created.claim_path)).text


async def test_somebody_who_forgot_that_they_have_an_account_comes_back_too(pages_app: PagesApp) -> None:
    created, user, browser = (
        await create_instant_database(pages_app.services),
        await pages_app.create_user(),
        pages_app.open_client(),
    )
    await browser.get(f"/signup?next={created.claim_path}")
    await browser.post("/signup", email=user.email, next=created.claim_path)
    assert await pages_app.get_mailed_link(user.email) == f"/signin?next={created.claim_path}"


async def test_without_a_way_back_mails_are_as_they_were(pages_app: PagesApp) -> None:
    known, unknown, browser = await pages_app.create_user(), make_email(), pages_app.open_client()
    for email in (known.email, unknown):
        await browser.get("/signup")
        await browser.post("/signup", email=email)
        assert "next=" not in await pages_app.get_mailed_link(email)


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", f"/claim/{ID}@evil.example"])
async def test_signing_up_goes_on_to_no_other_place(pages_app: PagesApp, path: str) -> None:
    email, browser = make_email(), pages_app.open_client()
    assert (
        ParsedPage((await browser.get("/signup", params={"next": path})).text).hidden_value("next")
        == return_paths.ACCOUNT_PATH
    )
    assert "evil" not in (await browser.post("/signup", email=email, next=path)).text
    link = await pages_app.get_mailed_link(email)
    assert "evil" not in link
    finish = ParsedPage((await browser.get(f"{link}&next={path}")).text)
    assert finish.hidden_value("next") == return_paths.ACCOUNT_PATH
    token = finish.hidden_value("token")
    response = await browser.post("/welcome/finish", token=token, next=path, name="Grace", password=PASSWORD)
    assert (response.status_code, response.headers["location"]) == (303, return_paths.ACCOUNT_PATH)
