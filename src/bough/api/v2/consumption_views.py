"""Responses with the consumption history."""

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from fastapi import Response
from pydantic import BaseModel

from bough.api.paging import Pagination
from bough.domain.consumption_metrics import REQUIRED_METRICS, Metric
from bough.domain.consumption_periods import Period


class TimeframeView(BaseModel):
    timeframe_start: datetime
    timeframe_end: datetime
    active_time_seconds: int
    compute_time_seconds: int
    written_data_bytes: int
    synthetic_storage_size_bytes: int
    data_storage_bytes_hour: int | None = None
    logical_size_bytes: int | None = None
    logical_size_bytes_hour: int | None = None


class MetricView(BaseModel):
    metric_name: str
    value: int


class TimeframeV2View(BaseModel):
    timeframe_start: datetime
    timeframe_end: datetime
    metrics: list[MetricView]


class _PeriodView(BaseModel):
    period_id: UUID
    period_plan: str
    period_start: datetime
    period_end: datetime | None = None


class PeriodView(_PeriodView):
    consumption: list[TimeframeView]


class PeriodV2View(_PeriodView):
    consumption: list[TimeframeV2View]


class AccountConsumption(BaseModel):
    periods: list[PeriodView]


class ProjectConsumption(BaseModel):
    project_id: str
    periods: list[PeriodView]


class ProjectsConsumption(BaseModel):
    projects: list[ProjectConsumption]
    pagination: Pagination | None = None


class ProjectConsumptionV2(BaseModel):
    project_id: str
    periods: list[PeriodV2View]


class ProjectsConsumptionV2(BaseModel):
    projects: list[ProjectConsumptionV2]
    pagination: Pagination | None = None


class BranchConsumptionV2(BaseModel):
    project_id: str
    branch_id: str
    periods: list[PeriodV2View]


class BranchesConsumptionV2(BaseModel):
    branches: list[BranchConsumptionV2]
    pagination: Pagination | None = None


def with_required(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the metrics of the first version to compute: those that every bucket has, and those asked for."""
    return tuple(dict.fromkeys((*REQUIRED_METRICS, *metrics)))


class PeriodWriter:
    """Writes periods as JSON. The models above describe the result, but are too slow for thousands of buckets."""

    def __init__(self, metrics: Sequence[Metric], *, is_v2: bool) -> None:
        names = [(metric.name, "%d" if metric.is_whole else "%.0f") for metric in metrics]
        if is_v2:
            values = ",".join(f'{{"metric_name":"{name}","value":{number}}}' for name, number in names)
            values = f'"metrics":[{values}]'
        else:
            values = ",".join(f'"{name}":{number}' for name, number in names)
        self._template = f'{{"timeframe_start":"%s","timeframe_end":"%s",{values}}}'
        self._texts: dict[datetime, str] = {}

    def write(self, periods: Sequence[Period]) -> str:
        return f"[{','.join(map(self._write_period, periods))}]"

    def _write_period(self, period: Period) -> str:
        template, text = self._template, self._format
        end = "" if period.end is None else f'"period_end":"{text(period.end)}",'
        buckets = ",".join(
            [template % (text(bucket.start), text(bucket.end), *bucket.values) for bucket in period.buckets]
        )
        return (
            f'{{"period_id":"{period.id}","period_plan":{json.dumps(period.plan)},'
            f'"period_start":"{text(period.start)}",{end}"consumption":[{buckets}]}}'
        )

    def _format(self, moment: datetime) -> str:
        found = self._texts.get(moment)
        if found is None:
            found = self._texts[moment] = f"{moment:%Y-%m-%dT%H:%M:%S}Z"
        return found


def write_response(name: str, objects: str, cursor: str | None = None) -> Response:
    """`objects` is the JSON of a list."""
    pagination = "" if cursor is None else f',"pagination":{{"cursor":{json.dumps(cursor)}}}'
    return Response(f'{{"{name}":{objects}{pagination}}}', media_type="application/json")
