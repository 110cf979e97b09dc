"""Log lines: one JSON object per event with the request id, and without secrets."""

import io
import json
from typing import Any

import pytest

from support import api_app as fronts
from support.api_app import ApiApp
from support.api_client import Caller, create_caller


def _lines(logbook: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in logbook.getvalue().splitlines()]


async def test_a_request_is_one_line_with_its_id(caller: Caller, log_output: io.StringIO) -> None:
    await caller.client.get("/projects?search=private-words", headers={"X-Request-ID": "my-own-id"})
    (line,) = _lines(log_output)
    assert (line["event"], line["request_id"]) == ("request", "my-own-id")
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v2/projects", 200)
    assert line["ms"] >= 0
    assert {"timestamp", "level", "component"} <= line.keys()
    assert "private-words" not in log_output.getvalue()


async def test_a_refusal_is_a_line_too(api_app: ApiApp, log_output: io.StringIO) -> None:
    async with api_app.client("bough_key_" + "s3cret" * 9) as client:
        response = await client.get("/projects")
    (line,) = _lines(log_output)
    assert (line["status"], line["request_id"]) == (401, response.headers["x-request-id"])
    assert "s3cret" not in log_output.getvalue()


async def test_a_crash_is_told_in_full_under_the_requests_id(
    api_app: ApiApp, caller: Caller, log_output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError(f"a cause with {caller.token}")

    monkeypatch.setattr(api_app.services.rate_limiter, "take", fail)
    response = await caller.client_for(api_app, crashes=True).get("/auth")
    crash, request = _lines(log_output)
    assert (crash["event"], crash["level"]) == ("request_crashed", "error")
    assert "ZeroDivisionError" in crash["exception"]
    assert crash["request_id"] == request["request_id"] == response.json()["request_id"]
    assert caller.token not in log_output.getvalue()


async def test_a_projects_whole_life_leaves_no_secret_in_the_log(log_output: io.StringIO) -> None:
    async with fronts.open_api_app() as app:
        caller = await create_caller(app)
        created = await caller.create_project(name="watched")
        project_id, password = created["project"]["id"], created["roles"][0]["password"]
        key = (await caller.client.post("/api_keys", json={"key_name": "k"})).json()["key"]
        await app.platform.run_operations()
        query = {"role_name": "neondb_owner", "database_name": "neondb"}
        assert password in (await caller.client.get(f"/projects/{project_id}/connection_uri", params=query)).text
        await caller.client.delete(f"/projects/{project_id}")
        await app.platform.run_operations()
    written = log_output.getvalue()
    for secret in (password, key, key[22:], caller.token, caller.token[22:], app.platform.key, "SCRAM-SHA-256$4096"):
        assert secret not in written
    ended = [line for line in _lines(log_output) if line["event"] == "operation_ended"]
    assert [line["kind"] for line in ended] == ["create_root_branch", "start_compute", "suspend_compute"]
    requests = {line["request_id"] for line in _lines(log_output) if line["event"] == "request"}
    assert {line["request_id"] for line in ended} <= requests
    assert all(line["operation_id"] and line["project_id"] == project_id for line in ended)
