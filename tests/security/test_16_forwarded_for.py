"""Rule 16: limits and the audit log trust `X-Forwarded-For` only from proxies in `trusted_proxies`."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from bough.api.app import create_app
from bough.api.proxies import TrustedProxies
from bough.api.server import serve_http
from bough.config import Settings, load_settings
from bough.errors import InvalidSetting
from support.pages_app import PagesApp
from support.platform import API, Platform

GARBAGE = [
    "",
    ",",
    ", ,",
    "unknown",
    "'; drop table audit; --",
    "\x1b]0;x\x07",
    "1.2.3.4.5",
    "[::1",
    "fe80::1%\x1b]0;",
    "1.2.3.4:x",
    "x" * 60_000,
    "," * 60_000,
]


@asynccontextmanager
async def serve_api(platform: Platform, **changes: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Serves the API on a real port of 127.0.0.1 and yields a client."""
    app = PagesApp(platform, **changes)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        asgi_app = create_app(app.services)
        async with serve_http(asgi_app, listener), httpx2.AsyncClient(base_url=url + API, timeout=60) as client:
            yield client


async def read_audited_address(client: httpx2.AsyncClient, key: str, forwarded: str) -> str:
    """Creates a project with this header and returns the address in the audit log."""
    headers = {"Authorization": f"Bearer {key}", "X-Forwarded-For": forwarded}
    created = await client.post("/projects", json={"project": {}}, headers=headers)
    assert created.status_code == 201, created.text
    audit = await client.get("/bough/audit", params={"project_id": created.json()["project"]["id"]}, headers=headers)
    return str(audit.json()["audit"][0]["address"])


async def test_a_forged_header_changes_neither_limits_nor_the_audit(platform: Platform) -> None:
    async with serve_api(platform, rate_per_minute_and_address=3) as client:
        responses = [await client.get("/auth", headers={"X-Forwarded-For": f"192.0.2.{last}"}) for last in range(5)]
        assert [response.status_code for response in responses] == [401] * 3 + [429] * 2
        assert await read_audited_address(client, platform.key, "203.0.113.7") == "127.0.0.1"

    async with serve_api(platform, trusted_proxies=["127.0.0.1"], rate_per_minute_and_address=3) as client:
        responses = [await client.get("/auth", headers={"X-Forwarded-For": f"192.0.2.{last}"}) for last in range(5)]
        assert [response.status_code for response in responses] == [401] * 5, "each address has its own limit"
        forged = [f"198.51.100.{last}, 192.0.2.99" for last in range(5)]
        responses = [await client.get("/auth", headers={"X-Forwarded-For": value}) for value in forged]
        assert [response.status_code for response in responses] == [401] * 3 + [429] * 2, (
            "an address added by the caller must not count"
        )
        assert await read_audited_address(client, platform.key, "203.0.113.7") == "203.0.113.7"
        for garbage in GARBAGE:
            response = await client.get("/healthz", headers={b"X-Forwarded-For": garbage.encode()[:16_000]})
            assert response.status_code < 500


def resolve_client(trusted: list[str], peer: str, *values: str, proto: str = "") -> tuple[str, str]:
    """Returns address and scheme of a request with these headers."""
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in values]
    headers += [(b"x-forwarded-proto", proto.encode())] if proto else []
    scope: dict[str, Any] = {"type": "http", "client": (peer, 1), "scheme": "http", "headers": headers}
    TrustedProxies(Settings.model_validate({"trusted_proxies": trusted}).trusted_proxies).apply(scope)
    return scope["client"][0], scope["scheme"]


@pytest.mark.parametrize(
    ("trusted", "peer", "values", "address"),
    [
        ([], "127.0.0.1", ["192.0.2.1"], "127.0.0.1"),
        (["10.0.0.0/8"], "127.0.0.1", ["192.0.2.1"], "127.0.0.1"),
        (["127.0.0.1"], "127.0.0.1", ["192.0.2.1"], "192.0.2.1"),
        (["127.0.0.1"], "127.0.0.1", ["9.9.9.9, 192.0.2.1"], "192.0.2.1"),
        (["127.0.0.1"], "127.0.0.1", ["9.9.9.9", "192.0.2.1"], "192.0.2.1"),
        (["127.0.0.1", "10.0.0.0/8"], "127.0.0.1", ["9.9.9.9, 192.0.2.1, 10.1.2.3"], "192.0.2.1"),
        (["127.0.0.1", "10.0.0.0/8"], "127.0.0.1", ["10.9.9.9, 10.1.2.3"], "10.9.9.9"),
        (["127.0.0.1", "10.0.0.0/8"], "127.0.0.1", ["9.9.9.9, garbage, 10.1.2.3"], "10.1.2.3"),
        (["127.0.0.1"], "127.0.0.1", ["192.0.2.1:4711"], "192.0.2.1"),
        (["127.0.0.1"], "127.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        (["127.0.0.1"], "127.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        (["127.0.0.1"], "::ffff:127.0.0.1", ["192.0.2.1"], "192.0.2.1"),
        (["::1"], "::1", ["192.0.2.1"], "192.0.2.1"),
        *[(["127.0.0.1"], "127.0.0.1", [garbage], "127.0.0.1") for garbage in GARBAGE],
    ],
)  # fmt: skip
def test_the_last_address_that_is_no_proxy_is_the_callers(
    trusted: list[str], peer: str, values: list[str], address: str
) -> None:
    assert resolve_client(trusted, peer, *values)[0] == address


def test_the_scheme_is_believed_from_the_same_proxies() -> None:
    assert resolve_client(["127.0.0.1"], "127.0.0.1", proto="https")[1] == "https"
    assert resolve_client([], "127.0.0.1", proto="https")[1] == "http"
    assert resolve_client(["127.0.0.1"], "127.0.0.1", proto="javascript")[1] == "http"


def test_a_wrong_setting_is_refused_by_name() -> None:
    assert load_settings({}, {"BOUGH_TRUSTED_PROXIES": '["10.0.0.0/8", "::1"]'}).trusted_proxies
    with pytest.raises(InvalidSetting, match="trusted_proxies"):
        load_settings({}, {"BOUGH_TRUSTED_PROXIES": '["proxy.example.com"]'})
