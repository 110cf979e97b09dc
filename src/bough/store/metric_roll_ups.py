"""Named queries that roll samples up to minutes and hours, each sample exactly once.

The samples of one hour and shard are read and combined outside of a transaction, because that takes long. The
transaction that writes the result marks them as rolled up, and is rolled back if another process has done so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from bough.domain.metrics.points import Point, merge_points, roll_up
from bough.domain.metrics.tiers import HOUR, ROLLED_UP_TIERS, align
from bough.errors import Internal
from bough.store import metric_encoding
from bough.store.queries import Queries
from bough.store.tables import metric_chunks, metric_samples
from bough.store.tables.metrics import IS_PENDING

ChunkKey = tuple[str, int, int]  # series, step, and the moment at which it begins


class SamplesChanged(Internal):
    """Another process rolled up or deleted these samples in the meantime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSamples:
    """The samples of one shard and hour, as they are stored, by their moment."""

    shard: int
    samples: Mapping[int, bytes]


_pending = sa.and_(IS_PENDING, metric_samples.c.at < sa.bindparam("before", type_=sa.BigInteger))
_OLDEST = (
    sa.select(metric_samples.c.shard, metric_samples.c.at)
    .where(_pending)
    .order_by(metric_samples.c.at, metric_samples.c.shard)
    .limit(1)
)
_SAMPLES = sa.select(metric_samples.c.at, metric_samples.c.points).where(
    _pending,
    metric_samples.c.shard == sa.bindparam("of_shard", type_=sa.Integer),
    metric_samples.c.at >= sa.bindparam("since", type_=sa.BigInteger),
)
_MARK = (
    sa.update(metric_samples)
    .where(
        IS_PENDING,
        metric_samples.c.shard == sa.bindparam("of_shard"),
        metric_samples.c.at.in_(sa.bindparam("moments", expanding=True)),
    )
    .values(is_rolled_up=True)
)
_key = sa.and_(
    metric_chunks.c.series == sa.bindparam("of_series"),
    metric_chunks.c.step == sa.bindparam("of_step"),
    metric_chunks.c.at == sa.bindparam("of_at"),
)
_DELETE_CHUNK = sa.delete(metric_chunks).where(_key)


class MetricRollUps(Queries):
    async def find_pending(self, before: int) -> PendingSamples | None:
        """Return the oldest samples of hours that ended before the moment; None if all are rolled up."""
        oldest = await self._one(_OLDEST, before=align(before, HOUR))
        if oldest is None:
            return None
        hour, shard = align(oldest["at"], HOUR), oldest["shard"]
        rows = await self._all(_SAMPLES, before=hour + HOUR, of_shard=shard, since=hour)
        return PendingSamples(shard=shard, samples={row["at"]: bytes(row["points"]) for row in rows})

    async def read_chunks(self, keys: Iterable[ChunkKey]) -> dict[ChunkKey, bytes]:
        """Return the chunks that exist."""
        series: dict[tuple[int, int], list[str]] = {}
        for name, step, at in keys:
            series.setdefault((step, at), []).append(name)
        chunks: dict[ChunkKey, bytes] = {}
        for (step, at), names in series.items():
            rows = await self._all(
                sa.select(metric_chunks).where(
                    metric_chunks.c.series.in_(names), metric_chunks.c.step == step, metric_chunks.c.at == at
                )
            )
            chunks |= {(row["series"], step, at): bytes(row["points"]) for row in rows}
        return chunks

    async def save(self, pending: PendingSamples, chunks: Mapping[ChunkKey, bytes]) -> None:
        """Write the chunks and mark the samples as rolled up."""
        marked = await self._run(_MARK, of_shard=pending.shard, moments=list(pending.samples))
        if marked != len(pending.samples):
            raise SamplesChanged("Another process has rolled up these samples of metrics.")
        await self._run_many(
            _DELETE_CHUNK, [{"of_series": series, "of_step": step, "of_at": at} for series, step, at in chunks]
        )
        await self._insert_many(metric_chunks, [_to_chunk_row(key, points) for key, points in chunks.items()])


def combine_samples(pending: PendingSamples) -> dict[ChunkKey, Mapping[int, Point]]:
    """Return the points of each chunk that the samples belong to. Takes long: call it in a thread."""
    by_series: dict[str, list[tuple[int, Point]]] = {}
    for at, stored in pending.samples.items():
        for series, point in metric_encoding.decode_samples(stored).items():
            by_series.setdefault(series, []).append((at, point))
    combined: dict[ChunkKey, Mapping[int, Point]] = {}
    for series, points in by_series.items():
        rolled: Mapping[int, Point] = dict(points)
        for tier in ROLLED_UP_TIERS:
            rolled = roll_up(rolled.items(), tier.step)
            combined[series, tier.step, align(min(rolled), tier.chunk)] = rolled
    return combined


def add_to_chunks(
    combined: Mapping[ChunkKey, Mapping[int, Point]], stored: Mapping[ChunkKey, bytes]
) -> dict[ChunkKey, bytes]:
    """Return the chunks with these points added, as they are stored. Takes long: call it in a thread."""
    chunks: dict[ChunkKey, bytes] = {}
    for key, added in combined.items():
        points = metric_encoding.decode_chunk(stored[key]) if key in stored else {}
        points |= {at: merge_points(points.get(at, {}), point) for at, point in added.items()}
        chunks[key] = metric_encoding.encode_points(dict(sorted(points.items())))
    return chunks


def _to_chunk_row(key: ChunkKey, points: bytes) -> dict[str, Any]:
    series, step, at = key
    return {"series": series, "step": step, "at": at, "stored_bytes": len(points), "points": points}
