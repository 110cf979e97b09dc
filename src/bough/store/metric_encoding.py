"""The form in which points of metrics are stored: compressed JSON, column by column, with the names of the metrics.

Neighbouring values of a metric are similar, so columns compress well. Metrics that a later version adds or removes are
simply absent from a row.
"""

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bough.domain.metrics.points import GaugeCell, Point

_GAUGE_PARTS = 3


def encode_points(points: Mapping[str, Point] | Mapping[int, Point]) -> bytes:
    """Encode points by the name of their series, or by the moment at which they begin."""
    names = sorted({name for point in points.values() for name in point})
    columns = {name: _encode_column([point.get(name) for point in points.values()]) for name in names}
    body = json.dumps({"keys": list(points), "columns": columns}, separators=(",", ":"))
    return zlib.compress(body.encode())


def decode_samples(stored: bytes, wanted: Collection[str] | None = None) -> dict[str, Point]:
    """Return the points of the wanted series, by default of all."""
    return _decode(stored, wanted)


def decode_chunk(stored: bytes) -> dict[int, Point]:
    """Return the points of a series by the moment at which they begin."""
    return _decode(stored, None)


def _decode(stored: bytes, wanted: Collection[str] | None) -> dict[Any, Point]:
    body = json.loads(zlib.decompress(stored))
    numbers = {key: number for number, key in enumerate(body["keys"]) if wanted is None or key in wanted}
    return {key: _decode_point(body["columns"], number) for key, number in numbers.items()}


def _encode_column(cells: Sequence[int | GaugeCell | None]) -> list[Any]:
    """Encode a gauge as three columns, unless every value is that of a single sample."""
    gauges = [cell for cell in cells if isinstance(cell, GaugeCell)]
    if not gauges:
        return list(cells)
    if all(cell.samples == 1 for cell in gauges):
        return [[cell[0] if isinstance(cell, GaugeCell) else None for cell in cells]]
    return [[cell[part] if isinstance(cell, GaugeCell) else None for cell in cells] for part in range(_GAUGE_PARTS)]


def _decode_point(columns: Mapping[str, list[Any]], number: int) -> dict[str, int | GaugeCell]:
    cells = {name: _decode_cell(column, number) for name, column in columns.items()}
    return {name: cell for name, cell in cells.items() if cell is not None}


def _decode_cell(column: list[Any], number: int) -> int | GaugeCell | None:
    if not isinstance(column[0], list):
        return column[number]  # type: ignore[no-any-return]
    parts = [part[number] for part in column]
    if parts[0] is None:
        return None
    return GaugeCell(*parts) if len(parts) == _GAUGE_PARTS else GaugeCell(parts[0], 1, parts[0])
