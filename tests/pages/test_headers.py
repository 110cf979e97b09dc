"""Security headers of all pages."""

import pytest

from bough.pages import routes
from bough.pages.page_app import PageApp
from support import platform
from support.pages_app import PagesApp

PAGES = {route.path: route.endpoint for route in routes.routes() if isinstance(route.endpoint, PageApp)}
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
EVERY = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
}


@pytest.mark.parametrize("path", PAGES)
async def test_every_answer_has_them(pages_app: PagesApp, path: str) -> None:
    client = pages_app.open_client().client
    for method in METHODS:
        response = await client.request(method, path)
        assert {name: response.headers.get(name) for name in EVERY} == EVERY
        assert "strict-transport-security" not in response.headers
        if method not in PAGES[path].methods:
            assert response.status_code == 405
            assert response.headers["allow"] == ", ".join(PAGES[path].methods)
            assert response.headers["content-type"] == "text/html; charset=utf-8"
        else:
            assert response.status_code in ({403} if method == "POST" else {200, 303, 404})


async def test_where_people_come_by_https_they_shall_always(shared_platform: platform.Platform) -> None:
    app = PagesApp(shared_platform, public_url="https://db.example.org")
    for path in ("/signin", "/account", "/reset"):
        assert (await app.open_client().get(path)).headers["strict-transport-security"] == "max-age=31536000"


async def test_no_page_has_a_script_a_style_or_anything_from_elsewhere(pages_app: PagesApp) -> None:
    person = await pages_app.sign_in_new_user()
    text = (await person.client.get("/account")).text
    for word in ("<script", "<style", "style=", "onclick", "onload", "http://", "https://", "javascript:"):
        assert word not in text


@pytest.mark.parametrize(("suffix", "kind"), [("css", "text/css; charset=utf-8"), ("svg", "image/svg+xml")])
async def test_the_stylesheet_and_the_icon_may_be_kept(pages_app: PagesApp, suffix: str, kind: str) -> None:
    browser = pages_app.open_client()
    text = (await browser.get("/signin")).text
    address = text[text.index(f"/static/bough.{suffix}?") :].partition('"')[0]
    response = await browser.get(address)
    assert (response.status_code, response.headers["content-type"]) == (200, kind)
    assert response.headers["cache-control"].startswith("public, max-age=")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in response.headers


async def test_no_other_file_is_given(pages_app: PagesApp) -> None:
    for path in ("/static/", "/static/../routes.py", "/static/%2e%2e/routes.py", "/static/bough.html"):
        assert (await pages_app.open_client().get(path)).status_code == 404


async def test_requests_are_counted_by_their_page(pages_app: PagesApp) -> None:
    browser = pages_app.open_client()
    await browser.get("/signin")
    key = pages_app.platform.key
    counted = (await browser.client.get("/metrics", headers={"Authorization": f"Bearer {key}"})).text
    assert 'route="/signin"' in counted
