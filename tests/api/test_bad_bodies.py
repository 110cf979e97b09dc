"""Invalid bodies get a 4xx status with the error body, never a 500."""

import json
from typing import Any

import httpx2
import pytest

from support.api_app import ApiApp
from support.api_client import Caller

JSON = {"Content-Type": "application/json"}


async def _sent(caller: Caller, body: bytes, headers: dict[str, str] = JSON) -> httpx2.Response:
    response = await caller.client.post("/projects", content=body, headers=headers)
    assert 400 <= response.status_code < 500, response.text
    assert set(response.json()) == {"request_id", "code", "message"}
    return response


def _project(text: str) -> bytes:
    return ('{"project": ' + text + "}").encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"[1, 2",
        b'{"project": {"name": }}',
        b"\xff\xfe\x00",
        b'{"project": {"name": "\xff"}}',
        b"\xef\xbb\xbf{}",
        b'{"project": {"name": "line\nfeed"}}',
        b'{"project": {}} and more',
        b"9" * 5000,
        b'{"project": {"history_retention_seconds": ' + b"9" * 5000 + b"}}",
    ],
)
async def test_what_is_not_json_is_refused(caller: Caller, body: bytes) -> None:
    assert (await _sent(caller, body)).status_code == 400


@pytest.mark.parametrize("body", ["null", "[]", "7", '"text"', "true", "{}", '{"project": null}', '{"project": []}'])
async def test_json_of_another_kind_is_refused(caller: Caller, body: str) -> None:
    assert (await _sent(caller, body.encode())).status_code == 400


@pytest.mark.parametrize(
    "fields",
    [
        '{"name": 7}',
        '{"name": ""}',
        '{"name": "' + "n" * 257 + '"}',
        '{"name": ["a"]}',
        '{"pg_version": "17"}',
        '{"pg_version": 17.0}',
        '{"pg_version": true}',
        '{"pg_version": 13}',
        '{"pg_version": 1e400}',
        '{"pg_version": ' + "9" * 300 + "}",
        '{"store_passwords": 1}',
        '{"store_passwords": "true"}',
        '{"history_retention_seconds": -1}',
        '{"history_retention_seconds": 2592001}',
        '{"history_retention_seconds": 18446744073709551616}',
        '{"autoscaling_limit_min_cu": NaN}',
        '{"autoscaling_limit_min_cu": Infinity}',
        '{"autoscaling_limit_min_cu": -Infinity}',
        '{"autoscaling_limit_max_cu": 1e400}',
        '{"autoscaling_limit_max_cu": "1"}',
        '{"autoscaling_limit_max_cu": 0.1}',
        '{"settings": {"quota": {"active_time_seconds": 9223372036854775808}}}',
        '{"settings": {"quota": {"active_time_seconds": -1}}}',
        '{"settings": {"audit_log_level": "some"}}',
        '{"settings": []}',
        '{"branch": "main"}',
        '{"branch": {"annotations": {"a": 1}}}',
        '{"org_id": "Not An Id"}',
        '{"default_endpoint_settings": {"pg_settings": {"work_mem": 4}}}',
    ],
)
async def test_a_field_of_the_wrong_kind_is_refused_by_name(caller: Caller, fields: str) -> None:
    message = (await _sent(caller, _project(fields))).json()["message"]
    assert any(name in message for name in _names(json.loads(fields))), message
    assert await caller.list_project_names() == []


def _names(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [*value, *(name for each in value.values() for name in _names(each))]


@pytest.mark.parametrize("bad", ["\\u0000", "\\ud800", "\\udfff", "\\udc00\\ud800"])
@pytest.mark.parametrize(
    "fields",
    [
        '{"name": "a@b"}',
        '{"region_id": "@"}',
        '{"provisioner": "@"}',
        '{"branch": {"name": "@"}}',
        '{"branch": {"role_name": "r@"}}',
        '{"branch": {"database_name": "d@"}}',
        '{"branch": {"annotations": {"@": "v"}}}',
        '{"branch": {"annotations": {"k": "@"}}}',
        '{"settings": {"allowed_ips": {"ips": ["@"]}}}',
        '{"settings": {"preload_libraries": {"enabled_libraries": ["@"]}}}',
        '{"default_endpoint_settings": {"pg_settings": {"work_mem": "@"}}}',
        '{"default_endpoint_settings": {"pg_settings": {"@": "4MB"}}}',
        '{"unknown": [{"deep": ["@"]}]}',
        '{"un@known": 1}',
    ],
)
async def test_text_that_no_database_can_hold_is_refused_anywhere(caller: Caller, fields: str, bad: str) -> None:
    assert (await _sent(caller, _project(fields.replace("@", bad)))).status_code == 400


@pytest.mark.parametrize("bad", ["%00", "a%00b"])
@pytest.mark.parametrize(
    "path",
    [
        "/projects?search={}",
        "/projects?cursor={}",
        "/projects?org_id={}",
        "/projects?limit={}",
        "/projects/{}",
        "/projects/{}/operations",
        "/projects/@/operations?cursor={}",
        "/projects/@/operations/{}",
        "/projects/@/connection_uri?role_name={}&database_name=neondb",
        "/projects/@/connection_uri?role_name=neondb_owner&database_name={}",
        "/projects/@/connection_uri?role_name=neondb_owner&database_name=neondb&branch_id={}",
        "/regions?org_id={}",
    ],
)
async def test_nul_in_paths_and_queries_is_refused(caller: Caller, path: str, bad: str) -> None:
    project_id = await caller.create_ready_project()
    response = await caller.client.get(path.format(bad).replace("@", project_id))
    assert response.status_code == 400, response.text


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
async def test_nesting_never_breaks_anything(caller: Caller, opening: str, closing: str) -> None:
    """Somewhere in this range the parser fails; just below it, every later step would have to recurse."""
    for depth in (50, 500, *range(930, 1000, 2), 5000, 100_000):
        await _sent(caller, _project('{"name": 7, "deep": ' + opening * depth + "1" + closing * depth + "}"))


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "image/png", "a b;c"])
async def test_a_body_of_another_content_type_is_refused(caller: Caller, content_type: str) -> None:
    await _sent(caller, b'{"project": {}}', {"Content-Type": content_type})
    assert await caller.list_project_names() == []


async def test_a_body_over_the_limit_is_413(api_app: ApiApp, caller: Caller) -> None:
    async with caller.client_for(ApiApp(api_app.platform, body_limit=2048)) as client:
        fits = json.dumps({"project": {"branch": {"annotations": {"a": "x" * 1900}}}}).encode()
        assert len(fits) < 2048
        assert (await client.post("/projects", content=fits, headers=JSON)).status_code == 201

        async def pieces() -> Any:
            for _ in range(300):
                yield b" " * 10

        for body in (b" " * 2049, pieces()):
            response = await client.post("/projects", content=body, headers=JSON)
            assert response.status_code == 413, response.text
            assert "2048 bytes" in response.json()["message"]


@pytest.mark.parametrize("length", ["9" * 30, "9" * 5000, "-1", "many"])
async def test_a_content_length_that_lies_is_no_trouble(caller: Caller, length: str) -> None:
    response = await caller.client.post("/projects", content=b"{}", headers={**JSON, "Content-Length": length})
    assert 400 <= response.status_code < 500
