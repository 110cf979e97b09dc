"""The client of instant databases: its requests, its responses, and its errors with broken servers."""

import json
import socket
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from bough_client import transport
from bough_client.errors import ClientError
from bough_client.instant import InstantClient, direct_connection_string
from support.http_stub import endless_response, make_response, serve_stub

POOLED = "postgresql://neondb_owner:s3cret@ep-a-b-1-pooler.us-east-2.aws.localhost:5433/neondb?sslmode=require"
DATABASE = {
    "id": "0199a1b2-0000-7000-8000-000000000001",
    "status": "UNCLAIMED",
    "neon_project_id": "quiet-sea-1",
    "connection_string": POOLED,
    "claim_url": "http://localhost:8432/claim/0199a1b2-0000-7000-8000-000000000001",
    "expires_at": "2026-11-20T02:19:51Z",
    "created_at": "2026-11-17T02:19:51Z",
    "updated_at": "2026-11-17T02:19:51.5Z",
}


def database_response(**other: Any) -> bytes:
    return make_response(201, json.dumps({**DATABASE, **other}).encode())


@pytest.mark.parametrize("path", ["", "/", "/api/v1", "/api/v1/"])
def test_it_asks_for_a_database_and_reads_every_field(path: str) -> None:
    with serve_stub([database_response()]) as server:
        database = InstantClient(server.url + path).create("me", logical_replication=True)
        assert [json.loads(body) for body in server.request_bodies] == [
            {"ref": "me", "enable_logical_replication": True}
        ]
    assert (database.id, database.status, database.project_id) == (DATABASE["id"], "UNCLAIMED", "quiet-sea-1")
    assert (database.claim_url, database.expires_at) == (
        DATABASE["claim_url"],
        datetime(2026, 11, 20, 2, 19, 51, tzinfo=UTC),
    )
    assert database.connection_strings() == (POOLED, POOLED.replace("-pooler", ""))


def test_what_is_secret_is_in_no_repr() -> None:
    with serve_stub([database_response()]) as server:
        text = repr(InstantClient(server.url).get(DATABASE["id"]))
    assert "quiet-sea-1" in text
    assert not any(secret in text for secret in ("s3cret", DATABASE["id"]))


def test_a_claimed_database_can_be_looked_at_and_gives_no_string() -> None:
    with serve_stub([database_response(status="CLAIMED", connection_string=None)]) as server:
        database = InstantClient(server.url).get(DATABASE["id"])
        with pytest.raises(ClientError, match="claimed"):
            database.connection_strings()
        with pytest.raises(ClientError, match="is not an instant database"):
            InstantClient(server.url).create("me")


@pytest.mark.parametrize(
    ("pooled", "expected"),
    [
        (POOLED, POOLED.replace("-pooler", "")),
        ("postgresql://u:x-pooler@h-pooler.a-pooler/d-pooler?o=-pooler", "postgresql://u:x-pooler@h.a-pooler/d-pooler?o=-pooler"),
        ("postgresql://h-pooler", "postgresql://h"),
        ("postgresql://h/d", "postgresql://h/d"),
    ],
)  # fmt: skip
def test_the_direct_string_differs_in_the_host_only(pooled: str, expected: str) -> None:
    assert direct_connection_string(pooled) == expected


ERRORS = [
    (
        "a reason with a hint",
        make_response(400, b'{"message": "Missing referrer", "hint": "Say who."}'),
        (400, "Say who."),
    ),
    ("too many", make_response(429, b'{"message": "Slow."}', "Retry-After: 7"), (429, None)),
    ("full", make_response(503, b'{"message": "No room."}', "Retry-After: soon"), (503, None)),
    ("failed", make_response(500, b'{"message": "Failed to create the database."}'), (500, None)),
]


@pytest.mark.parametrize(
    ("response", "expected"), [(each[1], each[2]) for each in ERRORS], ids=[each[0] for each in ERRORS]
)
def test_what_a_platform_refuses_is_told_in_its_words(response: bytes, expected: tuple[int, str | None]) -> None:
    with serve_stub([response]) as server, pytest.raises(ClientError) as raised:
        InstantClient(server.url).create("me")
    error = raised.value
    assert json.loads(response.partition(b"\r\n\r\n")[2])["message"] == error.message
    assert (error.status, error.hint, error.retry_after) == (*expected, 7 if b"Retry-After: 7" in response else None)


UNEXPECTED: dict[str, tuple[Iterable[bytes], str]] = {
    "a page": ([make_response(200, b"<html>It works!</html>")], "(status 200) is not from a Bough platform"),
    "a page of a proxy": ([make_response(502, b"<html>Bad gateway</html>")], "(status 502) is not"),
    "somewhere else": ([make_response(301, b"", "Location: https://elsewhere.example/")], "(status 301) is not"),
    "nothing": ([make_response(204, b"")], "(status 204) is not"),
    "a list": ([make_response(200, b"[]")], "(status 200) is not"),
    "very deep": ([make_response(200, b"[" * 200_000)], "(status 200) is not"),
    "no text at all": ([make_response(200, b"\xff\xfe\x00")], "(status 200) is not"),
    "another thing": ([make_response(201, b'{"id": "x"}')], "is not an instant database"),
    "no string": ([database_response(connection_string=None)], "is not an instant database"),
    "a string of two lines": (
        [database_response(connection_string=f"{POOLED}\nPATH=/tmp")],
        "is not an instant database",
    ),
    "a string with a quote": ([database_response(connection_string=f"{POOLED}'")], "is not an instant database"),
    "a string for another server": ([database_response(connection_string="mysql://h/d")], "is not an instant database"),
    "a claim that is a program": ([database_response(claim_url="javascript:alert(1)")], "is not an instant database"),
    "a claim of two lines": (
        [database_response(claim_url="http://h/claim/1\nPATH=/tmp")],
        "is not an instant database",
    ),
    "an expiry that is no time": ([database_response(expires_at="soon")], "is not an instant database"),
    "a number for a text": ([database_response(id=1)], "is not an instant database"),
    "half of it": ([make_response(200, b"{", length=100)], "cannot be reached: "),
    "no HTTP": ([b"SSH-2.0-OpenSSH\r\n\r\n"], "cannot be reached: "),
    "not even a word": ([], "cannot be reached: "),
    "no end": (endless_response(b" " * 65536), "is too large"),
}


@pytest.mark.parametrize(("pieces", "phrase"), UNEXPECTED.values(), ids=UNEXPECTED)
def test_a_server_that_is_no_platform_is_one_sentence(pieces: Iterable[bytes], phrase: str) -> None:
    with serve_stub(pieces) as server, pytest.raises(ClientError) as raised:
        InstantClient(server.url).create("me")
    assert phrase in raised.value.message
    assert raised.value.status is None


def test_an_answer_that_comes_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "RESPONSE_TIMEOUT", 0.05)
    with serve_stub(endless_response(b" ")) as server, pytest.raises(ClientError, match="did not respond in time"):
        InstantClient(server.url).create("me")


def test_a_server_that_is_down_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(ClientError, match=rf"^{url} cannot be reached: .*refused") as raised:
        InstantClient(url).create("me")
    assert raised.value.status is None


def test_words_of_a_server_cannot_move_the_cursor() -> None:
    body = json.dumps({"message": "\x1b[2Jred\r\nalert " + "x" * 9999, "hint": "\x07ring"}).encode()
    with serve_stub([make_response(500, body)]) as server, pytest.raises(ClientError) as raised:
        InstantClient(server.url).create("me")
    assert raised.value.message.startswith("[2Jred alert xxx")
    assert len(raised.value.message) < 600
    assert raised.value.hint == "ring"


@pytest.mark.parametrize(
    "url", ["", "localhost:8432", "ftp://h", "http://", "http://u:p@h", "http://h:x", "http://h?q", "http://a b", "http://[::1"]
)  # fmt: skip
def test_an_address_that_is_none_is_not_asked(url: str) -> None:
    with pytest.raises(ClientError, match="This is not the URL of a platform"):
        InstantClient(url).create("me")


def test_no_proxy_stands_between_a_client_and_its_own_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    with serve_stub([database_response()]) as server:
        assert InstantClient(server.url).create("me").id == DATABASE["id"]
