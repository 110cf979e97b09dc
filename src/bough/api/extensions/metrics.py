"""Metrics over time: of an endpoint, of a branch with all of its computes, and of the machine."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from bough import clock
from bough.access import lookup
from bough.api.dependencies import OperatorDep, ReadableProject, ServicesDep
from bough.api.extensions.audit import UtcTimestamp
from bough.api.schemas import BranchIdPath, View, to_response
from bough.api.v2.endpoints import EndpointIdPath
from bough.control.services import Services
from bough.domain.metrics.fields import COMPUTE_FIELDS, MACHINE_FIELDS, MACHINE_SERIES, MetricField
from bough.domain.metrics.series import Aggregation, MetricSeries, Points, build_series
from bough.domain.metrics.tiers import HOUR, InvalidRange, MetricRange, choose_range
from bough.errors import Invalid
from bough.ids import BranchId, EndpointId

router = APIRouter(tags=["Metrics"])


class MetricSeriesView(View):
    name: str
    unit: str
    aggregation: Aggregation
    values: list[int | float | None]

    @classmethod
    def of(cls, series: MetricSeries) -> "MetricSeriesView":
        return cls(name=series.name, unit=series.unit, aggregation=series.aggregation, values=list(series.values))


class MetricsResponse(View):
    starts_at: datetime
    ends_at: datetime
    step_seconds: int
    resolution_seconds: int
    timestamps: list[datetime]
    series: list[MetricSeriesView]


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetricsQuery:
    wanted: MetricRange
    names: frozenset[str]  # empty: all

    def choose(self, fields: Sequence[MetricField]) -> list[MetricField]:
        known = [field.name for field in fields]
        if unknown := sorted(self.names - set(known)):
            raise Invalid(f"There is no metric {unknown[0][:64]!r}. The metrics are {', '.join(known)}.")
        return [field for field in fields if not self.names or field.name in self.names]


async def _metrics_query(
    since: Annotated[UtcTimestamp | None, Query(alias="from", description="Default: an hour before `to`.")] = None,
    until: Annotated[UtcTimestamp | None, Query(alias="to", description="Default: now.")] = None,
    step: Annotated[
        int | None, Query(ge=1, description="Seconds, a multiple of 15. Default: at most 300 points.")
    ] = None,
    metrics: Annotated[
        list[str] | None, Query(max_length=100, description="Names, repeated or joined with commas. Default: all.")
    ] = None,
) -> _MetricsQuery:
    now = clock.now().timestamp()
    end = now if until is None else until.timestamp()
    start = min(end, now) - HOUR if since is None else since.timestamp()
    try:
        wanted = choose_range(start, end, step, now)
    except InvalidRange as error:
        raise Invalid(str(error)) from None
    names = {name.strip() for each in metrics or () for name in each.split(",")}
    return _MetricsQuery(wanted=wanted, names=frozenset(names - {""}))


MetricsQueryDep = Annotated[_MetricsQuery, Depends(_metrics_query)]


@router.get("/bough/projects/{project_id}/endpoints/{endpoint_id}/metrics", response_model=MetricsResponse)
async def get_endpoint_metrics(
    project: ReadableProject, endpoint_id: EndpointIdPath, query: MetricsQueryDep, services: ServicesDep
) -> Response:
    """Get what the compute of an endpoint used and did, for charts.

    Each value belongs to the timestamp at the same position, at which its step begins. `sum`: what happened in the
    step; divide it by `step_seconds` for a rate. `average` and `maximum`: of the samples in the step. It is null while
    the compute did not run, and where nothing is known. `resolution_seconds`: the interval of the points that the steps
    were combined from: 15 seconds are kept for an hour, minutes for 2 days, hours for 30 days.
    """
    async with services.store.read() as rows:
        endpoint = await lookup.endpoint(rows, project, EndpointId(endpoint_id))
    return await _build_response(services, query, [endpoint.id], COMPUTE_FIELDS)


@router.get("/bough/projects/{project_id}/branches/{branch_id}/metrics", response_model=MetricsResponse)
async def get_branch_metrics(
    project: ReadableProject, branch_id: BranchIdPath, query: MetricsQueryDep, services: ServicesDep
) -> Response:
    """Get what all computes of a branch used and did together, and the size of its data.

    As for an endpoint; a maximum is the sum of the maximums of the computes, except for storage and lag.
    """
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        endpoints = await rows.endpoints.list_in_branch(branch.id)
    return await _build_response(services, query, [endpoint.id for endpoint in endpoints], COMPUTE_FIELDS)


@router.get("/bough/machine/metrics", response_model=MetricsResponse)
async def get_machine_metrics(_operator: OperatorDep, query: MetricsQueryDep, services: ServicesDep) -> Response:
    """Get CPU time, load, memory and disk space of the machine, and the number of running computes, over time."""
    return await _build_response(services, query, [MACHINE_SERIES], MACHINE_FIELDS)


async def _build_response(
    services: Services, query: _MetricsQuery, names: Sequence[str], fields: Sequence[MetricField]
) -> Response:
    wanted, chosen = query.wanted, query.choose(fields)
    async with services.store.read(slow=True) as rows:
        points = await rows.metrics.read_points(names, wanted)
    return await asyncio.to_thread(_render, wanted, chosen, list(points.values()))


def _render(wanted: MetricRange, fields: Sequence[MetricField], computes: Sequence[Points]) -> Response:
    """Build a response that can have tens of thousands of values. Call it in a thread."""
    return to_response(
        MetricsResponse(
            starts_at=_to_datetime(wanted.start),
            ends_at=_to_datetime(wanted.end),
            step_seconds=wanted.step,
            resolution_seconds=wanted.tier.step,
            timestamps=[_to_datetime(start) for start in wanted.starts],
            series=[MetricSeriesView.of(each) for each in build_series(fields, wanted, computes)],
        )
    )


def _to_datetime(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
