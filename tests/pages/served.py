"""Pages that really listen, and a real browser to look at them with."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, async_playwright

import world
from bough.api.serving import serving
from pages.front import Front


@asynccontextmanager
async def listening(platform: world.Platform, **changes: Any) -> AsyncIterator[Front]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        front = Front(platform, api_port=listener.getsockname()[1], **changes)
        front.url = f"http://127.0.0.1:{front.settings.api_port}"
        async with serving(front.app, listener):
            yield front


@asynccontextmanager
async def chromium(executable: str) -> AsyncIterator[Browser]:
    async with async_playwright() as tools:
        browser = await tools.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()
