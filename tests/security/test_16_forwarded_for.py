"""Row 16: `X-Forwarded-For` counts only from proxies that the operator named, for limits and for the audit."""

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
async def listening(platform: Platform, **changes: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the API on a real port of 127.0.0.1."""
    front = PagesApp(platform, **changes)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        where = f"http://127.0.0.1:{listener.getsockname()[1]}"
        app = create_app(front.services)
        async with serve_http(app, listener), httpx2.AsyncClient(base_url=where + API, timeout=60) as client:
            yield client


async def audited(client: httpx2.AsyncClient, key: str, forwarded: str) -> str:
    """The address that the audit has for a change with this header."""
    headers = {"Authorization": f"Bearer {key}", "X-Forwarded-For": forwarded}
    made = await client.post("/projects", json={"project": {}}, headers=headers)
    assert made.status_code == 201, made.text
    found = await client.get("/bough/audit", params={"project_id": made.json()["project"]["id"]}, headers=headers)
    return str(found.json()["audit"][0]["address"])


async def test_a_forged_header_changes_neither_limits_nor_the_audit(platform: Platform) -> None:
    async with listening(platform, rate_per_minute_and_address=3) as client:
        answers = [await client.get("/auth", headers={"X-Forwarded-For": f"192.0.2.{last}"}) for last in range(5)]
        assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 2
        assert await audited(client, platform.key, "203.0.113.7") == "127.0.0.1"

    async with listening(platform, trusted_proxies=["127.0.0.1"], rate_per_minute_and_address=3) as client:
        answers = [await client.get("/auth", headers={"X-Forwarded-For": f"192.0.2.{last}"}) for last in range(5)]
        assert [answer.status_code for answer in answers] == [401] * 5, "each has its own room"
        invented = [f"198.51.100.{last}, 192.0.2.99" for last in range(5)]
        answers = [await client.get("/auth", headers={"X-Forwarded-For": value}) for value in invented]
        assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 2, (
            "what the caller wrote counts for nothing"
        )
        assert await audited(client, platform.key, "203.0.113.7") == "203.0.113.7"
        for garbage in GARBAGE:
            answer = await client.get("/healthz", headers={b"X-Forwarded-For": garbage.encode()[:16_000]})
            assert answer.status_code < 500


def called(trusted: list[str], peer: str, *values: str, proto: str = "") -> tuple[str, str]:
    """Address and scheme of a request with these headers."""
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
    assert called(trusted, peer, *values)[0] == address


def test_the_scheme_is_believed_from_the_same_proxies() -> None:
    assert called(["127.0.0.1"], "127.0.0.1", proto="https")[1] == "https"
    assert called([], "127.0.0.1", proto="https")[1] == "http"
    assert called(["127.0.0.1"], "127.0.0.1", proto="javascript")[1] == "http"


def test_a_wrong_setting_is_refused_by_name() -> None:
    assert load_settings({}, {"BOUGH_TRUSTED_PROXIES": '["10.0.0.0/8", "::1"]'}).trusted_proxies
    with pytest.raises(InvalidSetting, match="trusted_proxies"):
        load_settings({}, {"BOUGH_TRUSTED_PROXIES": '["proxy.example.com"]'})
