"""What the audit must say of any requests: one line for each that changed something, none for others, no secret."""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2

from api.front import Front
from api.routes import changes
from bough.domain.audit import AuditLine
from bough.store.audit import AuditQuestion

SECRETS = {"password", "key", "uri", "connection_uri", "link"}  # fields of answers that hold one
SEVERAL = {  # a line for each project, in the organization it leaves and in the one it enters
    "accept_project_transfer_request",
    "transfer_projects_from_org_to_org",
    "transfer_projects_from_user_to_org",
}


async def lines(front: Front, asked: AuditQuestion | None = None) -> list[AuditLine]:
    async with front.parts.store.read() as rows:
        return await rows.audit.page(asked or AuditQuestion(), 1_000_000, None)


async def check_tells_of(front: Front, heard: Sequence[httpx2.Response]) -> None:
    """Of every route that changes something there was a success in what was heard."""
    by_request: dict[str, list[AuditLine]] = defaultdict(list)
    for line in await lines(front):
        by_request[line.request_id].append(line)
    seen = set()
    for answer in heard:
        written = by_request[answer.headers["x-request-id"]]
        seen |= {line.action for line in written}
        place = f"{answer.request.method} {answer.request.url.path} → {answer.status_code}: {written}"
        if answer.request.method == "GET" or answer.is_error:
            assert not written, place
        else:
            assert len(written) == 1 or (written and {line.action for line in written} <= SEVERAL), place
            assert {line.address for line in written} == {"127.0.0.1"}, place
    assert seen >= changes(), f"no success was heard of {changes() - seen}: add one to the walk"
    _check_keeps_secrets([line for answer in heard for line in by_request[answer.headers["x-request-id"]]], heard)


def _check_keeps_secrets(kept: Sequence[AuditLine], heard: Sequence[httpx2.Response]) -> None:
    text = json.dumps([dataclasses.asdict(line) for line in kept], default=str, ensure_ascii=False)
    found = {secret for answer in heard for secret in _secrets(answer)}
    assert len(found) > 5
    assert [secret for secret in found if secret in text] == [], "the audit holds a secret of an answer"


def _secrets(answer: httpx2.Response) -> Iterator[str]:
    yield answer.request.headers["authorization"].removeprefix("Bearer ")
    if answer.is_success and answer.content:
        body = answer.json()
        yield from _in(body)
        if answer.request.url.path.endswith("/transfer_requests"):
            yield body["id"]  # whoever knows it may take the project


def _in(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _in(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in SECRETS and isinstance(each, str):
                yield from _parts(each)
            else:
                yield from _in(each)


def _parts(text: str) -> Iterator[str]:
    """An address is a secret for what it has in it."""
    if "://" not in text:
        yield text
        return
    url = urlsplit(text)
    if url.password:
        yield url.password
    yield from parse_qs(url.query).get("token", ())
