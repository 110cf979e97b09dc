"""Invalid forms are rejected with an error page before anything else happens."""

import pytest

from support import platform
from support.pages_app import PagesApp

FORM = "application/x-www-form-urlencoded"


async def _send_form(app: PagesApp, body: bytes, kind: str | None = FORM) -> tuple[int, str]:
    browser = app.open_client()
    await browser.get("/signin")
    headers = {"Origin": app.url, **({} if kind is None else {"Content-Type": kind})}
    response = await browser.client.post("/signin", content=body, headers=headers)
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return response.status_code, response.text


@pytest.mark.parametrize(
    "body",
    [
        b"email",
        b"email=%ff",
        b"email=%ed%a0%80",
        b"email=a%00b",
        b"a%00=b",
        "email=é".encode(),
        b"email=\xff",
        b"email=a&email=b",
        b"&".join(b"f%d=x" % number for number in range(21)),
        b"email=a;=;&&",
    ],
)
async def test_a_body_that_is_no_form_is_refused(pages_app: PagesApp, body: bytes) -> None:
    status, text = await _send_form(pages_app, body)
    assert status == 400
    assert "cannot be read" in text


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/json", "text/plain", "", None])
async def test_another_kind_of_body_is_refused(pages_app: PagesApp, kind: str | None) -> None:
    status, text = await _send_form(pages_app, b"email=a", kind)
    assert status == 415
    assert FORM in text


async def test_the_kind_may_name_its_alphabet(pages_app: PagesApp) -> None:
    status, text = await _send_form(pages_app, b"email=a", f"{FORM}; charset=UTF-8")
    assert (status, "Reload" in text) == (403, True)  # the form was parsed but has no token


async def test_a_form_that_is_too_long_is_refused(shared_platform: platform.Platform) -> None:
    status, text = await _send_form(PagesApp(shared_platform, body_limit=1024), b"email=" + b"a" * 2000)
    assert status == 413
    assert "over 1024 bytes" in text


async def test_an_empty_form_is_one_without_its_token(pages_app: PagesApp) -> None:
    assert (await _send_form(pages_app, b""))[0] == 403
