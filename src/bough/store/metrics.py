"""Named queries on metrics over time: samples, the chunks that they are rolled up to, and the counters last read.

Points are decoded in a thread, because an answer can contain many.
"""

import asyncio
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from bough.domain.metrics.budget import StoredGroup
from bough.domain.metrics.counters import CounterReading
from bough.domain.metrics.fields import MACHINE_SERIES
from bough.domain.metrics.points import Point, roll_up
from bough.domain.metrics.tiers import SAMPLE_SECONDS, SAMPLES, MetricRange, Tier, align
from bough.ids import EndpointId
from bough.store import metric_encoding
from bough.store.queries import Queries
from bough.store.tables import endpoints, metric_chunks, metric_counters, metric_samples
from bough.store.tables.metrics import IS_PENDING

SHARDS = 64  # rows of one moment
ROW_BYTES = 160  # of a row and its index entries, in addition to its points

_no_series = sa.literal("").label("series")
_SIZES = sa.union_all(
    sa.select(
        sa.literal(SAMPLE_SECONDS).label("step"),
        metric_samples.c.is_rolled_up,
        metric_samples.c.at,
        sa.func.sum(metric_samples.c.stored_bytes + ROW_BYTES).label("stored_bytes"),
    ).group_by(metric_samples.c.at, metric_samples.c.is_rolled_up),
    sa.select(
        metric_chunks.c.step,
        sa.true(),
        metric_chunks.c.at,
        sa.func.sum(metric_chunks.c.stored_bytes + ROW_BYTES),
    ).group_by(metric_chunks.c.step, metric_chunks.c.at),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    """The samples of a shard at one moment, as they are stored."""

    shard: int
    at: int
    points: bytes


def shard_of(series: str) -> int:
    return zlib.crc32(series.encode()) % SHARDS


def encode_samples(at: int, points: Mapping[str, Point]) -> list[SampleRow]:
    by_shard: dict[int, dict[str, Point]] = {}
    for series, point in points.items():
        by_shard.setdefault(shard_of(series), {})[series] = point
    return [
        SampleRow(shard=shard, at=at, points=metric_encoding.encode_points(each)) for shard, each in by_shard.items()
    ]


class Metrics(Queries):
    async def list_sampled_shards(self, at: int) -> set[int]:
        """Return the shards that have samples of this moment. They get no others, for example if the clock is set."""
        rows = await self._all(sa.select(metric_samples.c.shard).where(metric_samples.c.at == at))
        return {row["shard"] for row in rows}

    async def add_samples(self, samples: Sequence[SampleRow]) -> None:
        await self._insert_many(metric_samples, [_to_sample_row(each) for each in samples])

    async def read_points(self, series: Collection[str], wanted: MetricRange) -> dict[str, dict[int, Point]]:
        """Return the points of each series at the steps of the range, in one consistent read."""
        tier = wanted.tier
        samples = sa.select(_no_series, metric_samples.c.at, metric_samples.c.points).where(
            metric_samples.c.shard.in_({shard_of(each) for each in series}),
            metric_samples.c.at >= wanted.start,
            metric_samples.c.at < wanted.end,
        )
        if tier is SAMPLES:
            rows = await self._all(samples)
        else:
            pending = samples.where(IS_PENDING)
            rows = await self._all(sa.union_all(pending, _chunks_in(series, wanted, tier)))
        return await asyncio.to_thread(_decode, rows, series, wanted)

    async def list_sizes(self) -> list[StoredGroup]:
        rows = await self._all(_SIZES)
        return [
            StoredGroup(step=row["step"], is_pending=not row["is_rolled_up"], at=row["at"], bytes=row["stored_bytes"])
            for row in rows
        ]

    async def delete_before(self, step: int, moment: int, *, is_pending: bool = False) -> int:
        """Delete the points of this step that begin before the moment: of samples, only rolled up or pending ones."""
        if step != SAMPLE_SECONDS:
            return await self._run(
                sa.delete(metric_chunks).where(metric_chunks.c.step == step, metric_chunks.c.at < moment)
            )
        kind = IS_PENDING if is_pending else metric_samples.c.is_rolled_up
        return await self._run(sa.delete(metric_samples).where(metric_samples.c.at < moment, kind))

    async def list_unused_series(self) -> list[str]:
        """Return the series of deleted endpoints."""
        live = sa.select(endpoints.c.id).where(endpoints.c.deleted_at.is_(None))
        unused = sa.union(
            sa.select(metric_chunks.c.series).where(metric_chunks.c.series.not_in(live)),
            sa.select(metric_counters.c.endpoint_id).where(metric_counters.c.endpoint_id.not_in(live)),
        )
        names = [str(row["series"]) for row in await self._all(unused)]
        return [name for name in names if name != MACHINE_SERIES]

    async def delete_series(self, series: Collection[str]) -> None:
        await self._run(sa.delete(metric_chunks).where(metric_chunks.c.series.in_(series)))
        await self._run(sa.delete(metric_counters).where(metric_counters.c.endpoint_id.in_(series)))

    async def list_counters(self, endpoint_ids: Collection[EndpointId]) -> dict[EndpointId, CounterReading]:
        rows = await self._all(sa.select(metric_counters).where(metric_counters.c.endpoint_id.in_(endpoint_ids)))
        return {EndpointId(row["endpoint_id"]): CounterReading.from_stored(row["reading"]) for row in rows}

    async def save_counters(self, readings: Mapping[EndpointId, CounterReading]) -> None:
        ids = list(readings)
        await self._run_many(
            sa.delete(metric_counters).where(metric_counters.c.endpoint_id == sa.bindparam("read_id")),
            [{"read_id": each} for each in ids],
        )
        await self._insert_many(
            metric_counters, [{"endpoint_id": each, "reading": readings[each].to_stored()} for each in ids]
        )


def _chunks_in(series: Collection[str], wanted: MetricRange, tier: Tier) -> sa.Select[Any]:
    return sa.select(metric_chunks.c.series, metric_chunks.c.at, metric_chunks.c.points).where(
        metric_chunks.c.series.in_(series),
        metric_chunks.c.step == tier.step,
        metric_chunks.c.at >= align(wanted.start, tier.chunk),
        metric_chunks.c.at < wanted.end,
    )


def _decode(
    rows: Iterable[Mapping[str, Any]], series: Collection[str], wanted: MetricRange
) -> dict[str, dict[int, Point]]:
    points: dict[str, list[tuple[int, Point]]] = {each: [] for each in series}
    for row in rows:
        if row["series"]:
            points[row["series"]] += metric_encoding.decode_chunk(row["points"]).items()
        else:
            for name, point in metric_encoding.decode_samples(row["points"], series).items():
                points[name].append((row["at"], point))
    return {name: _select(found, wanted) for name, found in points.items()}


def _select(points: Iterable[tuple[int, Point]], wanted: MetricRange) -> dict[int, Point]:
    inside = ((at, point) for at, point in points if wanted.start <= at < wanted.end)
    return dict(roll_up(inside, wanted.step))


def _to_sample_row(sample: SampleRow) -> dict[str, Any]:
    return {
        "shard": sample.shard,
        "at": sample.at,
        "is_rolled_up": False,
        "stored_bytes": len(sample.points),
        "points": sample.points,
    }
