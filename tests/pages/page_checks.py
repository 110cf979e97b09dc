"""Checks of pages in a browser: layout, contrast, structure and console messages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page

_INSPECT_SCRIPT = """() => {
  const channel = value => { const c = value / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4 };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parts = text => text.match(/[0-9.]+/g).map(Number);
  const behind = element => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parts(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = element => {
    const [more, less] = [light(parts(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    return (more + 0.05) / (less + 0.05);
  };
  for (const each of document.querySelectorAll("details")) each.open = true;
  const elements = [...document.body.querySelectorAll("*")];
  const written = elements.filter(each => each.checkVisibility() && (each.value && each.type !== "hidden"
    || [...each.childNodes].some(child => child.nodeType === 3 && child.data.trim())));
  const fields = elements.filter(each => each.tagName === "INPUT" && each.type !== "hidden");
  const ids = elements.map(each => each.id).filter(id => id);
  const described = elements.flatMap(each => (each.getAttribute("aria-describedby") || "").split(" ")).filter(id => id);
  return {
    title: document.title,
    language: document.documentElement.lang,
    width: document.documentElement.scrollWidth - window.innerWidth,
    faint: written.filter(each => contrast(each) < 4.5).map(each => [each.outerHTML.slice(0, 200), contrast(each)]),
    read: written.length,
    nameless: fields.filter(each => !each.labels.length).map(each => each.outerHTML),
    unfilled: fields.filter(each => !each.autocomplete).map(each => each.outerHTML),
    small: elements.filter(each => each.matches("button, main input:not([type=hidden])") && each.checkVisibility()
      && each.getBoundingClientRect().height < 32).map(each => each.outerHTML),
    doubled: ids.filter((id, place) => ids.indexOf(id) !== place),
    dangling: described.filter(id => !document.getElementById(id)),
    headings: elements.filter(each => /^H[1-6]$/.test(each.tagName)).map(each => Number(each.tagName[1])),
    landmarks: ["header", "main", "footer"].filter(name => document.querySelectorAll(`body > ${name}`).length === 1),
    scripts: document.scripts.length,
  };
}"""


@asynccontextmanager
async def open_page(browser: Browser, **options: Any) -> AsyncIterator[Page]:
    context = await browser.new_context(**options)
    context.set_default_timeout(30_000)
    try:
        yield await context.new_page()
    finally:
        await context.close()


class CheckedPage:
    """A page and its console errors."""

    def __init__(self, page: Page, home: str) -> None:
        self.page = page
        self.problems: list[str] = []
        self._home = home
        page.on("console", self._record_console)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self._record_request(request.url))

    async def check(self) -> None:
        await self.page.wait_for_load_state()  # a click returns before the new page is loaded
        findings: dict[str, Any] = await self.page.evaluate(_INSPECT_SCRIPT)
        details = f"{self.page.url}: {findings}"
        assert findings["title"].endswith("· Bough"), details
        assert findings["language"] == "en", details
        assert findings["width"] <= 0, details
        assert findings["read"] > 3, details
        for name in ("faint", "nameless", "unfilled", "small", "doubled", "dangling"):
            assert findings[name] == [], details
        assert findings["headings"][0] == 1, details
        assert findings["headings"].count(1) == 1, details
        assert all(
            after <= before + 1 for before, after in zip(findings["headings"], findings["headings"][1:], strict=False)
        )
        assert findings["landmarks"] == ["header", "main", "footer"], details
        assert findings["scripts"] == 0, details
        assert self.problems == [], details

    def _record_console(self, message: ConsoleMessage) -> None:
        """Ignores messages about 4xx responses, which tests cause on purpose."""
        if message.type in ("error", "warning") and "the server responded with a status of 4" not in message.text:
            self.problems.append(message.text)

    def _record_request(self, url: str) -> None:
        if not url.startswith(f"{self._home}/"):
            self.problems.append(f"requests another origin: {url}")
