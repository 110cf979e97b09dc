"""The statements of an endpoint: statistics, those that run now, and cancelling one. Nothing here wakes a compute."""

import asyncio
from typing import TypeVar

from bough import clock
from bough.access import lookup
from bough.control.context import Context
from bough.control.services import Services
from bough.domain.endpoint import Endpoint
from bough.domain.project import Project
from bough.domain.statement_handle import StatementHandle
from bough.engine.port import (
    RunningStatement,
    SignalOutcome,
    StatementStatistics,
    StatisticsQuery,
    StatisticsUnavailable,
)
from bough.errors import NotFound, PreconditionFailed, RuleViolation
from bough.ids import EndpointId

_REPLAY_TIMEOUT = 5.0  # seconds until a replica has what was created on its primary
_REPLAY_POLL = 0.1

T = TypeVar("T")


async def read_statistics(
    services: Services, project: Project, endpoint_id: EndpointId, query: StatisticsQuery
) -> StatementStatistics:
    endpoint = await _find_endpoint(services, project, endpoint_id)
    try:
        return _require_running(await services.engine.read_statement_statistics(endpoint.id, query))
    except StatisticsUnavailable as error:
        if not error.needs_primary or not await _prepare_primary(services, endpoint):
            raise
    return await _read_after_replay(services, endpoint.id, query)


async def reset_statistics(context: Context, project: Project, endpoint_id: EndpointId) -> None:
    endpoint = await _find_endpoint(context.services, project, endpoint_id)
    _require_running(await context.services.engine.reset_statement_statistics(endpoint.id))
    async with context.transaction():  # for the audit log
        pass


async def list_running(services: Services, project: Project, endpoint_id: EndpointId) -> tuple[RunningStatement, ...]:
    endpoint = await _find_endpoint(services, project, endpoint_id)
    return _require_running(await services.engine.list_running_statements(endpoint.id))


async def signal_statement(
    context: Context, project: Project, endpoint_id: EndpointId, handle: StatementHandle, *, terminate: bool
) -> None:
    endpoint = await _find_endpoint(context.services, project, endpoint_id)
    outcome = _require_running(await context.services.engine.signal_statement(endpoint.id, handle, terminate=terminate))
    if outcome is SignalOutcome.ENDED:
        raise NotFound("This statement does not run any more. List the statements again to see those that do.")
    if outcome is SignalOutcome.NOTHING_RUNS:
        raise RuleViolation(
            "The session runs no statement now and only has a transaction open: terminate it to end the transaction."
        )
    async with context.transaction():  # for the audit log
        pass


async def _find_endpoint(services: Services, project: Project, endpoint_id: EndpointId) -> Endpoint:
    async with services.store.read() as rows:
        return await lookup.endpoint(rows, project, endpoint_id)


def _require_running(reply: T | None) -> T:
    if reply is None:
        raise PreconditionFailed(
            "The compute of the endpoint does not run, so it has no statements to show. Connect to the endpoint or "
            "start it, and try again."
        )
    return reply


async def _prepare_primary(services: Services, endpoint: Endpoint) -> bool:
    """Return False if the branch has no primary that runs."""
    async with services.store.read() as rows:
        writer = await rows.endpoints.get_read_write(endpoint.branch_id)
    return writer is not None and await services.engine.ensure_statistics_readable(writer.id) is not None


async def _read_after_replay(
    services: Services, endpoint_id: EndpointId, query: StatisticsQuery
) -> StatementStatistics:
    deadline = clock.monotonic() + _REPLAY_TIMEOUT
    while True:
        try:
            return _require_running(await services.engine.read_statement_statistics(endpoint_id, query))
        except StatisticsUnavailable:
            if clock.monotonic() >= deadline:
                raise
            await asyncio.sleep(_REPLAY_POLL)
