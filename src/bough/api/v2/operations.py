"""Operations: the platform's work on a project and its results."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from bough.api.dependencies import IdempotentRoute, ReadableProject, ServicesDep
from bough.api.paging import Pagination, decode_cursor, to_pagination
from bough.api.schemas import Text, View, to_response
from bough.domain.operation import Operation, OperationKind, OperationStatus
from bough.errors import NotFound
from bough.ids import OperationId

router = APIRouter(tags=["Operation"], route_class=IdempotentRoute)


class OperationAction(StrEnum):
    """What an operation does, under the names that clients know."""

    CREATE_TIMELINE = "create_timeline"
    CREATE_BRANCH = "create_branch"
    START_COMPUTE = "start_compute"
    SUSPEND_COMPUTE = "suspend_compute"
    APPLY_CONFIG = "apply_config"
    DELETE_TIMELINE = "delete_timeline"
    APPLY_STORAGE_CONFIG = "apply_storage_config"
    TIMELINE_ARCHIVE = "timeline_archive"
    TIMELINE_UNARCHIVE = "timeline_unarchive"


PUBLISHED_ACTIONS: Mapping[OperationKind, OperationAction] = {
    OperationKind.CREATE_ROOT_BRANCH: OperationAction.CREATE_TIMELINE,
    OperationKind.CREATE_BRANCH: OperationAction.CREATE_BRANCH,
    OperationKind.RESTORE_BRANCH: OperationAction.CREATE_TIMELINE,
    OperationKind.FINALIZE_RESTORE: OperationAction.CREATE_TIMELINE,
    OperationKind.CREATE_SNAPSHOT: OperationAction.CREATE_BRANCH,
    OperationKind.DELETE_SNAPSHOT: OperationAction.DELETE_TIMELINE,
    OperationKind.START_COMPUTE: OperationAction.START_COMPUTE,
    OperationKind.SUSPEND_COMPUTE: OperationAction.SUSPEND_COMPUTE,
    OperationKind.APPLY_CONFIG: OperationAction.APPLY_CONFIG,
    OperationKind.CHANGE_CATALOG: OperationAction.APPLY_CONFIG,
    OperationKind.DELETE_BRANCH: OperationAction.DELETE_TIMELINE,
    OperationKind.APPLY_HISTORY_RETENTION: OperationAction.APPLY_STORAGE_CONFIG,
    OperationKind.ARCHIVE_BRANCH: OperationAction.TIMELINE_ARCHIVE,
    OperationKind.UNARCHIVE_BRANCH: OperationAction.TIMELINE_UNARCHIVE,
}


class OperationView(View):
    id: str
    project_id: str
    branch_id: str | None
    endpoint_id: str | None
    action: OperationAction
    status: OperationStatus
    error: str | None
    failures_count: int
    retry_at: datetime | None
    created_at: datetime
    updated_at: datetime
    total_duration_ms: int

    @classmethod
    def of(cls, operation: Operation) -> "OperationView":
        will_retry = (
            not operation.has_ended
            and (operation.failures > 0 or operation.crashes > 0)
            and operation.lease_until is None
        )
        return cls(
            id=operation.id,
            project_id=operation.project_id,
            branch_id=operation.branch_id,
            endpoint_id=operation.endpoint_id,
            action=PUBLISHED_ACTIONS[operation.kind],
            status=operation.status,
            error=operation.error,
            failures_count=operation.failures,
            retry_at=operation.due_at if will_retry else None,
            created_at=operation.created_at,
            updated_at=operation.updated_at,
            total_duration_ms=_milliseconds(operation),
        )


class OperationResponse(View):
    operation: OperationView


class OperationsResponse(View):
    operations: list[OperationView]
    pagination: Pagination | None = None


def _milliseconds(operation: Operation) -> int:
    return int(((operation.ended_at or operation.updated_at) - operation.created_at).total_seconds() * 1000)


@router.get("/projects/{project_id}/operations", response_model=OperationsResponse)
async def list_project_operations(
    project: ReadableProject,
    services: ServicesDep,
    cursor: Annotated[Text | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the project's operations, newest first."""
    async with services.store.read() as rows:
        page = await rows.operations.page(project.id, limit=limit, after=decode_cursor(cursor))
    views = [OperationView.of(operation) for operation in page.rows]
    return to_response(OperationsResponse(operations=views, pagination=to_pagination(page)))


@router.get("/projects/{project_id}/operations/{operation_id}", response_model=OperationResponse)
async def get_project_operation(
    project: ReadableProject, operation_id: Annotated[UUID, Path()], services: ServicesDep
) -> Response:
    """Get an operation. Poll it until its status is `finished`, `failed`, `cancelled` or `skipped`."""
    async with services.store.read() as rows:
        operation = await rows.operations.get(OperationId(operation_id))
    if operation is None or operation.project_id != project.id:
        raise NotFound.resource("operation")
    return to_response(OperationResponse(operation=OperationView.of(operation)))
