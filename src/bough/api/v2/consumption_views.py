"""Responses with the consumption history.

The models describe them; pages with thousands of buckets are written without them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from fastapi import Response
from pydantic import BaseModel
from pydantic_core import to_json

from bough.api.paging import Pagination
from bough.domain.consumption_metrics import REQUIRED_METRICS, Metric
from bough.domain.consumption_periods import BucketValues, Period


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


def show_periods(periods: Sequence[Period], metrics: Sequence[Metric], *, is_v2: bool) -> list[dict[str, Any]]:
    names = [metric.name for metric in metrics]
    show = _show_values_v2 if is_v2 else _show_values
    return [_show_period(period, [show(bucket, names) for bucket in period.buckets]) for period in periods]


def write_response(body: Mapping[str, Any], cursor: str | None = None) -> Response:
    pagination = {} if cursor is None else {"pagination": {"cursor": cursor}}
    return Response(to_json({**body, **pagination}), media_type="application/json")


def _show_period(period: Period, consumption: list[dict[str, Any]]) -> dict[str, Any]:
    shown = {"period_id": str(period.id), "period_plan": period.plan, "period_start": _format(period.start)}
    if period.end is not None:
        shown["period_end"] = _format(period.end)
    return {**shown, "consumption": consumption}


def _show_values(bucket: BucketValues, names: Sequence[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {"timeframe_start": _format(bucket.start), "timeframe_end": _format(bucket.end)}
    shown |= {name: round(value) for name, value in zip(names, bucket.values, strict=True)}
    return shown


def _show_values_v2(bucket: BucketValues, names: Sequence[str]) -> dict[str, Any]:
    metrics = [{"metric_name": name, "value": round(value)} for name, value in zip(names, bucket.values, strict=True)]
    return {"timeframe_start": _format(bucket.start), "timeframe_end": _format(bucket.end), "metrics": metrics}


def _format(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}Z"
