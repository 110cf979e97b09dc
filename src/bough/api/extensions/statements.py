"""The statements of an endpoint: their statistics, those that run now, and how to cancel one."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from bough.api.dependencies import ContextDep, IdempotentRoute, ServicesDep, StatementsReadableProject, WritableProject
from bough.api.schemas import Text, View, to_response
from bough.api.v2.endpoints import EndpointIdPath
from bough.control.endpoints import statements
from bough.domain.statement_handle import StatementHandle
from bough.engine.port import RunningStatement, StatementCounts, StatementStatistics, StatisticsQuery
from bough.ids import EndpointId
from bough.postgres.statement_statistics import StatisticsOrder

router = APIRouter(tags=["Statements"], route_class=IdempotentRoute)

_ENDPOINT = "/bough/projects/{project_id}/endpoints/{endpoint_id}"
_STATEMENT = f"{_ENDPOINT}/statements/{{handle}}"
_MAX_STATEMENTS = 200

HandlePath = Annotated[str, Path(max_length=50)]


class StatementCountsView(View):
    query_id: str | None
    query: str | None
    is_truncated: bool | None
    role: str | None
    database: str | None
    is_top_level: bool
    calls: int
    rows: int
    total_ms: float
    mean_ms: float
    max_ms: float
    shared_blocks_hit: int
    shared_blocks_read: int
    wal_bytes: int
    since: datetime

    @classmethod
    def of(cls, counts: StatementCounts) -> "StatementCountsView":
        """The id of a query is a text, because a program in JavaScript cannot represent such large numbers."""
        return cls(
            query_id=None if counts.query_id is None else str(counts.query_id),
            query=counts.query.text if counts.query else None,
            is_truncated=counts.query.is_truncated if counts.query else None,
            role=counts.role,
            database=counts.database,
            is_top_level=counts.is_top_level,
            calls=counts.calls,
            rows=counts.rows,
            total_ms=counts.total_ms,
            mean_ms=counts.mean_ms,
            max_ms=counts.max_ms,
            shared_blocks_hit=counts.shared_blocks_hit,
            shared_blocks_read=counts.shared_blocks_read,
            wal_bytes=counts.wal_bytes,
            since=counts.since,
        )


class StatementStatisticsResponse(View):
    since: datetime
    evictions: int
    statements: list[StatementCountsView]

    @classmethod
    def of(cls, statistics: StatementStatistics) -> "StatementStatisticsResponse":
        return cls(
            since=statistics.since,
            evictions=statistics.evictions,
            statements=[StatementCountsView.of(each) for each in statistics.statements],
        )


class RunningStatementView(View):
    handle: str
    pid: int
    state: str
    query: str
    role: str | None
    database: str | None
    application_name: str
    session_began_at: datetime
    transaction_began_at: datetime | None
    began_at: datetime
    wait_event_type: str | None
    wait_event: str | None
    blocked_by: list[int]

    @classmethod
    def of(cls, statement: RunningStatement) -> "RunningStatementView":
        return cls(
            handle=str(statement.handle),
            pid=statement.handle.pid,
            state=statement.state,
            query=statement.query.text,
            role=statement.role,
            database=statement.database,
            application_name=statement.application_name,
            session_began_at=statement.handle.session_began_at,
            transaction_began_at=statement.transaction_began_at,
            began_at=statement.handle.began_at,
            wait_event_type=statement.wait_event_type,
            wait_event=statement.wait_event,
            blocked_by=list(statement.blocked_by),
        )


class RunningStatementsResponse(View):
    statements: list[RunningStatementView]


class SignalledStatementResponse(View):
    handle: str


class EmptyResponse(View):
    pass


@router.get(f"{_ENDPOINT}/statement_statistics", response_model=StatementStatisticsResponse)
async def get_statement_statistics(
    project: StatementsReadableProject,
    endpoint_id: EndpointIdPath,
    services: ServicesDep,
    limit: Annotated[int, Query(ge=1, le=_MAX_STATEMENTS)] = 50,
    order_by: StatisticsOrder = StatisticsOrder.TOTAL_TIME,
    database: Annotated[Text | None, Query(max_length=63)] = None,
    role: Annotated[Text | None, Query(max_length=63)] = None,
) -> Response:
    """List the statements that took most time since `since`, or have most of what `order_by` names.

    Statements that differ only in constants are counted together. The compute has to run, with the library
    `pg_stat_statements`, which is preloaded by default.
    """
    query = StatisticsQuery(limit=limit, order=order_by, database=database, role=role)
    statistics = await statements.read_statistics(services, project, EndpointId(endpoint_id), query)
    return to_response(StatementStatisticsResponse.of(statistics))


@router.delete(f"{_ENDPOINT}/statement_statistics", response_model=EmptyResponse)
async def reset_statement_statistics(
    project: WritableProject, endpoint_id: EndpointIdPath, context: ContextDep
) -> Response:
    """Delete the statistics of all statements of the endpoint and start to count again."""
    await statements.reset_statistics(context, project, EndpointId(endpoint_id))
    return to_response(EmptyResponse())


@router.get(f"{_ENDPOINT}/statements", response_model=RunningStatementsResponse)
async def list_statements(
    project: StatementsReadableProject, endpoint_id: EndpointIdPath, services: ServicesDep
) -> Response:
    """List the statements that clients run now, and the open transactions of clients, the longest-running first."""
    running = await statements.list_running(services, project, EndpointId(endpoint_id))
    return to_response(RunningStatementsResponse(statements=[RunningStatementView.of(each) for each in running]))


@router.post(f"{_STATEMENT}/cancel", response_model=SignalledStatementResponse)
async def cancel_statement(
    project: WritableProject, endpoint_id: EndpointIdPath, handle: HandlePath, context: ContextDep
) -> Response:
    """Cancel the statement with this handle, and no other. Its client gets the error 57014 and stays connected."""
    return await _signal(project, endpoint_id, handle, context, terminate=False)


@router.post(f"{_STATEMENT}/terminate", response_model=SignalledStatementResponse)
async def terminate_statement(
    project: WritableProject, endpoint_id: EndpointIdPath, handle: HandlePath, context: ContextDep
) -> Response:
    """End the session that runs the statement with this handle, or has only its transaction open."""
    return await _signal(project, endpoint_id, handle, context, terminate=True)


async def _signal(
    project: WritableProject, endpoint_id: str, handle: str, context: ContextDep, *, terminate: bool
) -> Response:
    parsed = StatementHandle.parse(handle)
    await statements.signal_statement(context, project, EndpointId(endpoint_id), parsed, terminate=terminate)
    return to_response(SignalledStatementResponse(handle=handle))
