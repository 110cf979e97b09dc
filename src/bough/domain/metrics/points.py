"""Points of a series: what is known about one interval of time, and how the points of several intervals are combined.

Combining is exact, and its result does not depend on the order or on how points were grouped before. So the sums of
minutes and hours equal those of the samples they came from.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bough.domain.metrics.fields import MetricField, MetricKind


class GaugeCell(NamedTuple):
    """The samples of a gauge in one interval."""

    total: int
    samples: int
    maximum: int


# Name of the metric → its value, scaled: the sum of a counter, or the cell of a gauge. What is absent is unknown.
Point = Mapping[str, int | GaugeCell]


def make_point(fields: Iterable[MetricField], values: Mapping[str, float | None]) -> dict[str, int | GaugeCell]:
    """Build the point of one sample. Values that are not plausible are left out, as if they were unknown."""
    point: dict[str, int | GaugeCell] = {}
    for field in fields:
        value = values.get(field.name)
        if value is None:
            continue
        scaled = round(value * field.scale)
        if field.kind is MetricKind.COUNTER and scaled >= 0:
            point[field.name] = scaled  # its rate was checked when the difference was computed
        elif 0 <= scaled <= field.limit:
            point[field.name] = GaugeCell(scaled, 1, scaled)
    return point


def merge_points(one: Point, other: Point) -> dict[str, int | GaugeCell]:
    merged = dict(one)
    _add(merged, other)
    return merged


def _add(point: dict[str, int | GaugeCell], other: Point) -> None:
    for name, cell in other.items():
        before = point.get(name)
        point[name] = cell if before is None else _merge_cells(before, cell)


def _merge_cells(one: int | GaugeCell, other: int | GaugeCell) -> int | GaugeCell:
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    if isinstance(one, int) or isinstance(other, int):
        raise TypeError("a counter cannot be combined with a gauge")
    return GaugeCell(one[0] + other[0], one[1] + other[1], max(one[2], other[2]))


def roll_up(points: Iterable[tuple[int, Point]], step: int) -> dict[int, dict[str, int | GaugeCell]]:
    """Combine the points by the multiple of `step` seconds in which they begin."""
    rolled: dict[int, dict[str, int | GaugeCell]] = {}
    for start, point in points:
        begin = start - start % step
        _add(rolled.setdefault(begin, {}), point)
    return rolled
