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


async def list_audit_lines(app: ApiApp, query: AuditQuery | None = None) -> list[AuditEntry]:
    async with app.services.store.read() as rows:
        return await rows.audit.page(query or AuditQuery(), 1_000_000, None)


async def check_audit_covers(app: ApiApp, responses: Sequence[httpx2.Response]) -> None:
    """Checks the audit entries of these responses. Every route that changes something must have succeeded once."""
    by_request: dict[str, list[AuditEntry]] = defaultdict(list)
    for entry in await list_audit_lines(app):
        by_request[entry.request_id].append(entry)
    actions = set()
    for response in responses:
        request_entries = by_request[response.headers["x-request-id"]]
        actions |= {entry.action for entry in request_entries}
        label = f"{response.request.method} {response.request.url.path} → {response.status_code}: {request_entries}"
        if response.request.method == "GET" or response.is_error:
            assert not request_entries, label
        else:
            assert len(request_entries) == 1 or (
                request_entries and {entry.action for entry in request_entries} <= MULTI_LINE_ACTIONS
            ), label
            assert {entry.address for entry in request_entries} == {"127.0.0.1"}, label
    assert actions >= list_changing_routes(), (
        f"no request of {list_changing_routes() - actions} succeeded; add one to the walk"
    )
    _check_no_secrets(
        [entry for response in responses for entry in by_request[response.headers["x-request-id"]]], responses
    )


def _check_no_secrets(entries: Sequence[AuditEntry], responses: Sequence[httpx2.Response]) -> None:
    text = json.dumps([dataclasses.asdict(entry) for entry in entries], default=str, ensure_ascii=False)
    secrets = {secret for response in responses for secret in _secrets(response)}
    assert len(secrets) > 5
    assert [secret for secret in secrets if secret in text] == [], "the audit log contains a secret of a response"


def _secrets(response: httpx2.Response) -> Iterator[str]:
    yield response.request.headers["authorization"].removeprefix("Bearer ")
    if response.is_success and response.content:
        body = response.json()
        yield from _secrets_in(body)
        if response.request.url.path.endswith("/transfer_requests"):
            yield body["id"]  # anyone who knows it can accept the transfer


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
    """Returns the secret parts of a connection URI or a link; other secrets are returned as they are."""
    if "://" not in text:
        yield text
        return
    url = urlsplit(text)
    if url.password:
        yield url.password
    yield from parse_qs(url.query).get("token", ())
