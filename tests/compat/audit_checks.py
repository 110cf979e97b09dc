"""Checks of the audit log: one entry for each request that changed something, none for others, no secrets."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from bough.domain.audit import AuditEntry
from bough.store.audit import AuditQuery
from support.api_app import ApiApp
from support.routes import list_changing_routes

SECRET_FIELDS = {"password", "key", "uri", "connection_uri", "link"}  # response fields that contain secrets
MULTI_LINE_ACTIONS = {  # an entry for each project, in the old and in the new organization
    "accept_project_transfer_request",
    "transfer_projects_from_org_to_org",
    "transfer_projects_from_user_to_org",
}


async def list_audit_lines(app: ApiApp, requested: AuditQuery | None = None) -> list[AuditEntry]:
    async with app.services.store.read() as rows:
        return await rows.audit.page(requested or AuditQuery(), 1_000_000, None)


async def check_audit_covers(app: ApiApp, heard: Sequence[httpx2.Response]) -> None:
    """Checks that every route that changes something succeeded at least once."""
    by_request: dict[str, list[AuditEntry]] = defaultdict(list)
    for line in await list_audit_lines(app):
        by_request[line.request_id].append(line)
    seen = set()
    for response in heard:
        written = by_request[response.headers["x-request-id"]]
        seen |= {line.action for line in written}
        place = f"{response.request.method} {response.request.url.path} → {response.status_code}: {written}"
        if response.request.method == "GET" or response.is_error:
            assert not written, place
        else:
            assert len(written) == 1 or (written and {line.action for line in written} <= MULTI_LINE_ACTIONS), place
            assert {line.address for line in written} == {"127.0.0.1"}, place
    assert seen >= list_changing_routes(), (
        f"no success was heard of {list_changing_routes() - seen}: add one to the walk"
    )
    _check_holds_no_secret([line for response in heard for line in by_request[response.headers["x-request-id"]]], heard)


def _check_holds_no_secret(kept: Sequence[AuditEntry], heard: Sequence[httpx2.Response]) -> None:
    text = json.dumps([dataclasses.asdict(line) for line in kept], default=str, ensure_ascii=False)
    found = {secret for response in heard for secret in _secrets(response)}
    assert len(found) > 5
    assert [secret for secret in found if secret in text] == [], "the audit holds a secret of an answer"


def _secrets(response: httpx2.Response) -> Iterator[str]:
    yield response.request.headers["authorization"].removeprefix("Bearer ")
    if response.is_success and response.content:
        body = response.json()
        yield from _secrets_in(body)
        if response.request.url.path.endswith("/transfer_requests"):
            yield body["id"]  # it allows to accept the transfer


def _secrets_in(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _secrets_in(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in SECRET_FIELDS and isinstance(each, str):
                yield from _secret_parts(each)
            else:
                yield from _secrets_in(each)


def _secret_parts(text: str) -> Iterator[str]:
    """The secret part of a connection URI."""
    if "://" not in text:
        yield text
        return
    url = urlsplit(text)
    if url.password:
        yield url.password
    yield from parse_qs(url.query).get("token", ())
