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
from bough.api.dependencies import PrincipalDep, ServicesDep
from bough.api.paging import UNKNOWN_CURSOR, Pagination
from bough.api.schemas import INT64_MAX, IdText, Text, View, to_response
from bough.api.v2.branch_bodies import Timestamp
from bough.domain.api_key import KeyKind
from bough.domain.audit import ActorKind, AuditEntry
from bough.domain.rights import OrgRight, Right
from bough.errors import Denied, Invalid
from bough.ids import OrganizationId, ProjectId, UserId
from bough.store.audit import AuditQuery
from bough.store.store import Rows

router = APIRouter(tags=["Audit"])

MAX_PAGE_SIZE = 500
DEFAULT_PAGE_SIZE = 100


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
    def of(cls, line: AuditEntry) -> "AuditLineView":
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


UtcTimestamp = Annotated[Timestamp, AfterValidator(_in_utc)]


async def _audit_query(
    org_id: Annotated[IdText | None, Query()] = None,
    project_id: Annotated[IdText | None, Query()] = None,
    user_id: Annotated[UUID | None, Query()] = None,
    action: Annotated[Text | None, Query(max_length=100)] = None,
    since: Annotated[UtcTimestamp | None, Query()] = None,
    until: Annotated[UtcTimestamp | None, Query()] = None,
) -> AuditQuery:
    return AuditQuery(
        org_id=OrganizationId(org_id) if org_id else None,
        project_id=ProjectId(project_id) if project_id else None,
        user_id=UserId(user_id) if user_id else None,
        action=action,
        since=since,
        until=until,
    )


@router.get("/bough/audit", response_model=AuditResponse)
async def list_audit(
    query: Annotated[AuditQuery, Depends(_audit_query)],
    caller: PrincipalDep,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = DEFAULT_PAGE_SIZE,
    cursor: Annotated[Text | None, Query()] = None,
) -> Response:
    """Who did what, the newest first: in an organization, to a project, or the caller's own doings."""
    before = _decode_cursor(cursor)
    async with services.store.read() as rows:
        allowed = await _restrict(rows, caller, query)
        found = await rows.audit.page(allowed, limit + 1, before) if allowed else []
    further = Pagination(cursor=str(found[limit - 1].id)) if len(found) > limit else None
    return to_response(AuditResponse(audit=[AuditLineView.of(line) for line in found[:limit]], pagination=further))


async def _restrict(rows: Rows, caller: Principal, asked: AuditQuery) -> AuditQuery | None:
    """The question, as far as this caller may have it answered; None: nothing of it is theirs to see."""
    if caller.is_operator:
        return asked
    if asked.org_id is not None:
        caller.organization(asked.org_id, right=OrgRight.AUDIT)
        return asked
    if asked.project_id is not None:
        project = await lookup.project(rows, caller, asked.project_id, right=Right.SHARE)
        return replace(asked, org_id=project.org_id)  # what was done before it came belongs to whom it left
    return _restrict_to_caller(caller, asked)


def _restrict_to_caller(caller: Principal, asked: AuditQuery) -> AuditQuery | None:
    if caller.kind is KeyKind.PROJECT:
        raise Denied("A key of one project may not read the audit. Use a personal API key, or one of the organization.")
    if caller.kind is KeyKind.ORGANIZATION:
        return replace(asked, org_id=caller.default_organization().id)
    if asked.user_id not in (None, caller.user_id):
        return None
    return replace(asked, user_id=caller.user_id, in_person=True)


def _decode_cursor(cursor: str | None) -> int | None:
    if not cursor:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 19 or int(cursor) > INT64_MAX:
        raise Invalid(UNKNOWN_CURSOR)
    return int(cursor)
