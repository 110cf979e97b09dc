"""Every error has the same body, a request id and its own message."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from bough.errors import ErrorKind, PlatformError
from bough.http_statuses import STATUS_BY_KIND
from support.api_app import ApiApp
from support.api_client import Caller

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def _check_body(response: httpx2.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    assert set(body) == {"request_id", "code", "message"}
    assert body["request_id"] == response.headers["x-request-id"]
    assert body["message"].rstrip().endswith((".", ")"))
    return body


def _every_error(kind: type[PlatformError] = PlatformError) -> Iterator[type[PlatformError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _every_error(each)


def test_every_kind_has_a_status() -> None:
    assert set(STATUS_BY_KIND) == set(ErrorKind)
    assert len(set(STATUS_BY_KIND.values())) == len(STATUS_BY_KIND)


@pytest.mark.parametrize("kind", ErrorKind)
async def test_each_kind_leaves_with_its_status_and_the_same_body(
    api_app: ApiApp, caller: Caller, monkeypatch: pytest.MonkeyPatch, kind: ErrorKind
) -> None:
    class Happened(PlatformError):
        code = "SOME_CODE"
        retry_after = 1.2

    def fail(*_: Any) -> None:
        Happened.kind = kind
        raise Happened("A sentence for people.")

    monkeypatch.setattr(api_app.services.rate_limiter, "take", fail)
    response = await caller.client_for(api_app, crashes=True).get("/auth")
    body = _check_body(response, STATUS_BY_KIND[kind])
    assert (body["code"], body["message"]) == ("SOME_CODE", "A sentence for people.")
    assert response.headers["retry-after"] == "2"
    assert ("www-authenticate" in response.headers) == (kind is ErrorKind.UNAUTHENTICATED)


async def test_what_nobody_foresaw_is_a_500_that_tells_nothing(
    api_app: ApiApp, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("a private cause")

    monkeypatch.setattr(api_app.services.rate_limiter, "take", fail)
    response = await caller.client_for(api_app, crashes=True).get("/auth")
    assert "private" not in response.text
    _check_body(response, 500)


@pytest.mark.parametrize("request_id", ["abc-123", "x" * 128, "~!@#$%^&*()"])
async def test_a_request_id_is_echoed(caller: Caller, request_id: str) -> None:
    good = await caller.client.get("/auth", headers={"X-Request-ID": request_id})
    assert good.headers["x-request-id"] == request_id
    bad = await caller.client.get("/projects/no-such-project", headers={"X-Request-ID": request_id})
    assert _check_body(bad, 404)["request_id"] == request_id


@pytest.mark.parametrize("request_id", [b"", b"x" * 129, b"two words", b"caf\xe9", b"line\tfeed"])
async def test_an_unfit_request_id_is_replaced(caller: Caller, request_id: bytes) -> None:
    response = await caller.client.get("/auth", headers={b"X-Request-ID": request_id})
    assert UUID.fullmatch(response.headers["x-request-id"])


async def test_request_ids_are_made_and_differ(caller: Caller) -> None:
    answers = [await caller.client.get("/auth") for _ in range(3)]
    created = {response.headers["x-request-id"] for response in answers}
    assert len(created) == 3
    assert all(UUID.fullmatch(each) for each in created)


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/projects/", "/projects/a/b/c/d", "/../v3", "/projects/%00", "/%ff%fe"]
)
async def test_an_unknown_path_is_404(caller: Caller, path: str) -> None:
    response = await caller.client.get(path)
    assert response.status_code in (400, 404)
    _check_body(response, response.status_code)


async def test_a_strangers_project_and_an_absent_one_are_told_apart_by_nobody(caller: Caller, stranger: Caller) -> None:
    project_id = await caller.create_ready_project()
    requests: list[tuple[str, str, Any]] = [
        ("GET", "", None),
        ("PATCH", "", {"project": {"name": "mine now"}}),
        ("DELETE", "", None),
        ("POST", "/recover", None),
        ("GET", "/operations", None),
        ("GET", "/connection_uri?role_name=neondb_owner&database_name=neondb", None),
    ]
    for method, rest, body in requests:
        theirs = await stranger.client.request(method, f"/projects/{project_id}{rest}", json=body)
        absent = await stranger.client.request(method, f"/projects/no-such-project{rest}", json=body)
        assert _check_body(theirs, 404)["message"] == _check_body(absent, 404)["message"]
        assert theirs.json()["message"].startswith(
            "The requested project could not be found, or you don't have access to it"
        )
    assert (await caller.get_project(project_id))["name"] == project_id


@pytest.mark.parametrize(("method", "path"), [("PUT", "/projects"), ("POST", "/regions"), ("DELETE", "/users/me")])
async def test_a_wrong_method_is_405_and_tells_the_right_ones(caller: Caller, method: str, path: str) -> None:
    response = await caller.client.request(method, path)
    _check_body(response, 405)
    assert "GET" in response.headers["allow"]


def test_every_error_class_has_a_kind_with_a_status() -> None:
    assert all(error.kind in STATUS_BY_KIND for error in _every_error())
