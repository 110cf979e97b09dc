"""The documentation of the API: a page without external resources, and the OpenAPI document."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from support.api_app import ApiApp
from support.routes import list_routes

COMMITTED = Path(__file__).parents[2] / "openapi" / "v2.json"


class _Page(HTMLParser):
    """Collects the resources that a browser would load, and the links of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        attributes = dict(attrs)
        if attributes.get("id"):
            self.ids.add(str(attributes["id"]))
        if tag == "a":
            self.links.append(str(attributes.get("href")))
        elif "href" in attributes or "src" in attributes:
            self.fetched.append(tag)


async def test_the_page_needs_no_internet_and_no_script(api_app: ApiApp) -> None:
    async with api_app.client() as client:
        response = await client.get("/docs")
    assert response.status_code == 200
    page = _Page(response.text)
    assert page.fetched == []
    assert not {"script", "img", "link", "iframe"} & page.tags
    assert not re.search(r"https?://|//cdn|@import|url\(", response.text)
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    assert response.headers["x-frame-options"] == "DENY"


async def test_the_page_tells_every_route_and_its_links_lead_somewhere(api_app: ApiApp) -> None:
    async with api_app.client() as client:
        text = (await client.get("/docs")).text
    page = _Page(text)
    for operation in list_routes():
        assert f"/api/v2{operation.path}</code>" in text
    assert [link for link in page.links if link.startswith("#") and link[1:] not in page.ids] == []
    assert "openapi.json" in page.links


async def test_machines_get_what_is_committed(api_app: ApiApp) -> None:
    async with api_app.client() as client:
        response = await client.get("/openapi.json")
    assert response.headers["content-type"] == "application/json"
    assert response.json() == json.loads(COMMITTED.read_text())
