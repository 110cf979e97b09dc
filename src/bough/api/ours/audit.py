"""The audit, for whoever may read it: that of an organization, of a project, or what the caller did."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AfterValidator

from bough.access import lookup
from bough.access.principal import Principal
from bough.api.given import PartsGiven, PrincipalGiven
from bough.api.shapes import INT64, IdText, Pagination, Text, View, show
from bough.api.v2.branch_bodies import Moment
from bough.domain.api_key import KeyKind
from bough.domain.audit import ActorKind, AuditLine
from bough.domain.rights import OrgRight, Right
from bough.errors import Denied, Invalid
from bough.ids import OrganizationId, ProjectId, UserId
from bough.store.audit import AuditQuestion
from bough.store.store import Rows

router = APIRouter(tags=["Audit"])

MOST = 500
USUAL = 100


class ActorView(View):
    kind: ActorKind
    name: str
    user_id: str | None
    key_id: int | None


class AuditLineView(View):
    id: int
    at: datetime
    actor: ActorView
    address: str
    request_id: str
    action: str
    org_id: str | None
    project_id: str | None
    thing: str
    details: Mapping[str, Any]

    @classmethod
    def of(cls, line: AuditLine) -> "AuditLineView":
        return cls(
            id=line.id,
            at=line.at,
            actor=ActorView(kind=line.actor_kind, name=line.actor_name, user_id=line.user_id, key_id=line.key_id),
            address=line.address,
            request_id=line.request_id,
            action=line.action,
            org_id=line.org_id,
            project_id=line.project_id,
            thing=line.thing,
            details=line.details,
        )


class AuditResponse(View):
    audit: list[AuditLineView]
    pagination: Pagination | None


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("no calendar has this moment") from None


When = Annotated[Moment, AfterValidator(_in_utc)]


async def _asked(
    org_id: Annotated[IdText | None, Query()] = None,
    project_id: Annotated[IdText | None, Query()] = None,
    user_id: Annotated[UUID | None, Query()] = None,
    action: Annotated[Text | None, Query(max_length=100)] = None,
    since: Annotated[When | None, Query()] = None,
    until: Annotated[When | None, Query()] = None,
) -> AuditQuestion:
    return AuditQuestion(
        org_id=OrganizationId(org_id) if org_id else None,
        project_id=ProjectId(project_id) if project_id else None,
        user_id=UserId(user_id) if user_id else None,
        action=action,
        since=since,
        until=until,
    )


@router.get("/bough/audit", response_model=AuditResponse)
async def list_audit(
    asked: Annotated[AuditQuestion, Depends(_asked)],
    caller: PrincipalGiven,
    given: PartsGiven,
    limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL,
    cursor: Annotated[Text | None, Query()] = None,
) -> Response:
    """Who did what, the newest first: in an organization, to a project, or the caller's own doings."""
    before = _line_of(cursor)
    async with given.store.read() as rows:
        allowed = await _allowed(rows, caller, asked)
        found = await rows.audit.page(allowed, limit + 1, before) if allowed else []
    further = Pagination(cursor=str(found[limit - 1].id)) if len(found) > limit else None
    return show(AuditResponse(audit=[AuditLineView.of(line) for line in found[:limit]], pagination=further))


async def _allowed(rows: Rows, caller: Principal, asked: AuditQuestion) -> AuditQuestion | None:
    """The question, as far as this caller may have it answered; None: nothing of it is theirs to see."""
    if caller.is_operator:
        return asked
    if asked.org_id is not None:
        caller.organization(asked.org_id, to=OrgRight.AUDIT)
        return asked
    if asked.project_id is not None:
        project = await lookup.project(rows, caller, asked.project_id, to=Right.SHARE)
        return replace(asked, org_id=project.org_id)  # what was done before it came belongs to whom it left
    return _own(caller, asked)


def _own(caller: Principal, asked: AuditQuestion) -> AuditQuestion | None:
    if caller.kind is KeyKind.PROJECT:
        raise Denied("A key of one project may not read the audit. Use a personal API key, or one of the organization.")
    if caller.kind is KeyKind.ORGANIZATION:
        return replace(asked, org_id=caller.home().id)
    if asked.user_id not in (None, caller.user_id):
        return None
    return replace(asked, user_id=caller.user_id, in_person=True)


def _line_of(cursor: str | None) -> int | None:
    if not cursor:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 19 or int(cursor) > INT64:
        raise Invalid("The cursor is not one that this API gave. Start again without a cursor.")
    return int(cursor)
