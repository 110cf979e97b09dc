"""The audit log of an organization, of a project, or of the caller."""

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
    def of(cls, entry: AuditEntry) -> "AuditLineView":
        return cls(
            id=entry.id,
            at=entry.at,
            actor=ActorView(kind=entry.actor_kind, name=entry.actor_name, user_id=entry.user_id, key_id=entry.key_id),
            address=entry.address,
            request_id=entry.request_id,
            action=entry.action,
            org_id=entry.org_id,
            project_id=entry.project_id,
            thing=entry.resource,
            details=entry.details,
        )


class AuditResponse(View):
    audit: list[AuditLineView]
    pagination: Pagination | None


def _in_utc(timestamp: datetime) -> datetime:
    try:
        return timestamp.astimezone(UTC)
    except OverflowError:
        raise ValueError("the timestamp is out of range") from None


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
    """List audit entries, newest first: of an organization, of a project, or of the caller."""
    before = _decode_cursor(cursor)
    async with services.store.read() as rows:
        allowed = await _restrict(rows, caller, query)
        entries = await rows.audit.page(allowed, limit + 1, before) if allowed else []
    pagination = Pagination(cursor=str(entries[limit - 1].id)) if len(entries) > limit else None
    return to_response(
        AuditResponse(audit=[AuditLineView.of(entry) for entry in entries[:limit]], pagination=pagination)
    )


async def _restrict(rows: Rows, caller: Principal, query: AuditQuery) -> AuditQuery | None:
    """Restrict the query to the entries that the caller can see. Return None if there are none."""
    if caller.is_operator:
        return query
    if query.org_id is not None:
        caller.organization(query.org_id, right=OrgRight.AUDIT)
        return query
    if query.project_id is not None:
        project = await lookup.project(rows, caller, query.project_id, right=Right.SHARE)
        return replace(query, org_id=project.org_id)  # earlier entries belong to the former organization
    return _restrict_to_caller(caller, query)


def _restrict_to_caller(caller: Principal, query: AuditQuery) -> AuditQuery | None:
    if caller.kind is KeyKind.PROJECT:
        raise Denied(
            "A project-scoped key cannot read the audit log. Use a personal API key or a key of the organization."
        )
    if caller.kind is KeyKind.ORGANIZATION:
        return replace(query, org_id=caller.default_organization().id)
    if query.user_id not in (None, caller.user_id):
        return None
    return replace(query, user_id=caller.user_id, in_person=True)


def _decode_cursor(cursor: str | None) -> int | None:
    if not cursor:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 19 or int(cursor) > INT64_MAX:
        raise Invalid(UNKNOWN_CURSOR)
    return int(cursor)
