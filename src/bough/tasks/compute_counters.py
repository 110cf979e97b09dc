"""What computes have counted since the last sample that was stored, and how far read replicas are behind.

The counters of each compute are stored with the sample, so that counting continues after a restart of control, and
after a compute was suspended.
"""

from collections.abc import Collection, Mapping, Sequence

from bough import clock
from bough.domain.endpoint import Endpoint, EndpointType
from bough.domain.metrics.compute_values import lag_values
from bough.domain.metrics.counters import CounterReading, count_since
from bough.engine.port import ComputeStatistics
from bough.ids import BranchId, EndpointId
from bough.store.store import Rows, Store


class ComputeCounters:
    def __init__(self) -> None:
        self._stored: dict[EndpointId, CounterReading] = {}
        self._latest: dict[EndpointId, CounterReading] = {}  # not stored yet

    async def record(self, store: Store, found: Mapping[EndpointId, ComputeStatistics]) -> None:
        """Take the statistics of this round, and load the counters of computes that were suspended."""
        self._latest |= {endpoint: _to_reading(statistics) for endpoint, statistics in found.items()}
        unknown = found.keys() - self._stored.keys()
        if unknown:
            async with store.read() as rows:
                self._stored |= await rows.metrics.list_counters(unknown)

    def count(self, endpoint: EndpointId, *, is_unchanged: bool) -> dict[str, int]:
        """Return the values of this sample: zeros for a compute that has counted nothing."""
        before, latest = self._stored.get(endpoint), self._latest.get(endpoint)
        if latest is not None:
            return count_since(before, latest)
        return count_since(before, before) if is_unchanged and before is not None else {}

    async def save(self, rows: Rows, stored: Collection[str]) -> None:
        """Write the counters of the series that are stored, in the transaction of their samples."""
        await rows.metrics.save_counters({each: reading for each, reading in self._latest.items() if each in stored})

    def commit(self, stored: Collection[str], active: Collection[EndpointId]) -> None:
        """Count from this sample on. Forget computes that do not run: their counters are in the store."""
        known = self._stored | {each: reading for each, reading in self._latest.items() if each in stored}
        self._stored = {each: reading for each, reading in known.items() if each in active}
        unsaved = self._latest.keys() - stored
        self._latest = {each: self._latest[each] for each in unsaved if each in active}


class ReplicaLags:
    def __init__(self) -> None:
        self._positions: dict[BranchId, int] = {}  # ends of the WAL of read-write computes
        self._lags: dict[EndpointId, dict[str, float]] = {}

    def record(self, active: Sequence[Endpoint], found: Mapping[EndpointId, ComputeStatistics]) -> None:
        """Keep what is known about computes that were not read, because nothing happened in them."""
        branches = {each.branch_id for each in active}
        self._positions = {branch: end for branch, end in self._positions.items() if branch in branches}
        self._positions |= {
            each.branch_id: end
            for each in active
            if each.id in found and (end := found[each.id].wal_position) is not None
        }
        replicas = [each for each in active if each.type is EndpointType.READ_ONLY]
        self._lags = {each.id: self._lags[each.id] for each in replicas if each.id in self._lags}
        for each in replicas:
            if (statistics := found.get(each.id)) is not None:
                position = self._positions.get(each.branch_id)
                self._lags[each.id] = lag_values(position, statistics.replayed_position, statistics.replay_age_seconds)

    def get(self, endpoint: EndpointId) -> dict[str, float]:
        return self._lags.get(endpoint, {})


def _to_reading(statistics: ComputeStatistics) -> CounterReading:
    return CounterReading(
        volume_id=statistics.volume_id,
        at=clock.now(),
        reset_at=statistics.reset_at,
        counts=statistics.counts,
        wal_position=statistics.wal_position,
    )
