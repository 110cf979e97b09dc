"""How far read replicas are behind: computed from two readings, and kept while nothing happens."""

from typing import Any

from bough.domain.endpoint import Endpoint, EndpointType
from bough.engine.port import ComputeStatistics
from bough.ids import VolumeId
from bough.tasks.compute_counters import ReplicaLags
from support.stores import make_branch, make_endpoint, make_project


def make_statistics(**fields: Any) -> ComputeStatistics:
    values = {"volume_id": VolumeId("vol-a"), "reset_at": None, "counts": {}, "wal_position": None, **fields}
    return ComputeStatistics(**values)


def make_pair() -> tuple[Endpoint, Endpoint]:
    branch = make_branch(make_project())
    return make_endpoint(branch), make_endpoint(branch, type=EndpointType.READ_ONLY)


def test_the_lag_is_the_distance_to_the_primary_of_its_branch() -> None:
    (primary, replica), (other, _) = make_pair(), make_pair()
    lags = ReplicaLags()
    found = {
        primary.id: make_statistics(wal_position=1000),
        other.id: make_statistics(wal_position=9000),
        replica.id: make_statistics(replayed_position=400, replay_age_seconds=2.5),
    }
    lags.record([replica, primary, other], found)
    assert lags.get(replica.id) == {"replica_lag_bytes": 600, "replica_lag_seconds": 2.5}
    assert lags.get(primary.id) == lags.get(other.id) == {}


def test_what_is_known_stays_while_nothing_happens_and_goes_with_the_compute() -> None:
    primary, replica = make_pair()
    lags = ReplicaLags()
    lags.record([primary, replica], {primary.id: make_statistics(wal_position=1000)})
    assert lags.get(replica.id) == {}
    lags.record([primary, replica], {replica.id: make_statistics(replayed_position=1000, replay_age_seconds=60.0)})
    caught_up = {"replica_lag_bytes": 0, "replica_lag_seconds": 0.0}
    assert lags.get(replica.id) == caught_up
    lags.record([primary, replica], {})
    assert lags.get(replica.id) == caught_up
    lags.record([replica], {replica.id: make_statistics(replayed_position=1000)})
    assert lags.get(replica.id) == caught_up  # the position of a suspended primary does not change
    lags.record([], {})
    assert lags.get(replica.id) == {}
