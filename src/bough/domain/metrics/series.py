"""The series of an answer: the values of each metric at each step of a range, for charts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bough.domain.metrics.fields import BranchRule, MetricField, MetricKind
from bough.domain.metrics.points import GaugeCell, Point
from bough.domain.metrics.tiers import MetricRange


class Aggregation(StrEnum):
    """What the value of a step says about the step."""

    SUM = "sum"
    AVERAGE = "average"
    MAXIMUM = "maximum"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    name: str
    unit: str
    aggregation: Aggregation
    values: tuple[float | None, ...]  # one for each step; None: not measured


# The points of one compute, by the moment at which they begin.
Points = Mapping[int, Point]


def build_series(fields: Iterable[MetricField], wanted: MetricRange, computes: Sequence[Points]) -> list[MetricSeries]:
    """Combine the computes. The maximum of a branch is the sum of its computes' maximums, unless they share a value."""
    return [
        MetricSeries(
            name=field.name,
            unit=field.unit,
            aggregation=aggregation,
            values=tuple(_combine(field, read, _find_cells(computes, start, field.name)) for start in wanted.starts),
        )
        for field in fields
        for aggregation, read in _list_aggregations(field)
    ]


_Reader = Callable[[int | GaugeCell], float]


def _list_aggregations(field: MetricField) -> list[tuple[Aggregation, _Reader]]:
    if field.kind is MetricKind.COUNTER:
        return [(Aggregation.SUM, _sum)]
    if not field.has_average:
        return [(Aggregation.MAXIMUM, _maximum)]
    return [(Aggregation.AVERAGE, _average), (Aggregation.MAXIMUM, _maximum)]


def _find_cells(computes: Sequence[Points], start: int, name: str) -> list[int | GaugeCell]:
    return [points[start][name] for points in computes if name in points.get(start, {})]


def _combine(field: MetricField, read: _Reader, cells: Sequence[int | GaugeCell]) -> float | None:
    if not cells:
        return None
    values = [read(cell) for cell in cells]
    combined = (sum(values) if field.branch_rule is BranchRule.SUM else max(values)) / field.scale
    return int(combined) if combined == int(combined) else round(combined, 6)


def _sum(cell: int | GaugeCell) -> float:
    return cell.total if isinstance(cell, GaugeCell) else cell


def _average(cell: int | GaugeCell) -> float:
    return cell.total / cell.samples if isinstance(cell, GaugeCell) else cell


def _maximum(cell: int | GaugeCell) -> float:
    return cell.maximum if isinstance(cell, GaugeCell) else cell
