"""Serves the pages on a socket, and launches a real browser."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, async_playwright

from bough.api.server import serve_http
from support.pages_app import PagesApp
from support.platform import Platform


@asynccontextmanager
async def serve_pages(platform: Platform, **changes: Any) -> AsyncIterator[PagesApp]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        pages_app = PagesApp(platform, api_port=listener.getsockname()[1], **changes)
        pages_app.url = f"http://127.0.0.1:{pages_app.settings.api_port}"
        async with serve_http(pages_app.asgi_app, listener):
            yield pages_app


@asynccontextmanager
async def launch_chromium(executable: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()
