"""Settings of read replicas, and how WAL segments are recognized."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from bough.ids import VolumeId
from bough.postgres import replication, wal
from bough.postgres.wal import SEGMENT_MB

SEGMENT = SEGMENT_MB * 1024**2


def head(position: int) -> bytes:
    return struct.pack("<HHIQ", 0xD116, 2, 1, position) + bytes(24)


def test_a_slot_is_named_as_postgres_wants_it() -> None:
    name = replication.slot_name(VolumeId.new())
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") and len(name) < 64
    assert name.startswith(replication.SLOT_PREFIX)


def test_a_limit_is_raised_and_never_lowered() -> None:
    own = {"max_connections": "200", "work_mem": "4MB"}
    raised = replication.raise_to_minimums(
        own, {"max_connections": "100", "max_worker_processes": "12", "max_wal_senders": 3}
    )
    assert raised == {**own, "max_worker_processes": "12"}
    assert replication.raise_to_minimums(own, {}) == own


def test_a_limit_is_read_as_postgres_reads_it() -> None:
    assert replication.limit_value({"max_worker_processes": " 1.6e1 "}, "max_worker_processes") == 16
    assert replication.limit_value({}, "max_worker_processes") == 8
    assert replication.limit_value({}, "max_wal_senders") == 20  # the default of every compute


def test_a_path_cannot_end_its_quotes() -> None:
    settings = replication.standby_settings("/it's \\ here", "/pass", "slot")
    assert settings["primary_conninfo"].startswith(r"host='/it\'s \\ here' port='5432' user='bough_replica'")


@given(st.integers(min_value=0, max_value=2**40), st.integers(min_value=1, max_value=2**31))
def test_a_segment_is_followed_by_the_next(number: int, timeline: int) -> None:
    name = wal.segment_name(timeline, number * SEGMENT)
    assert wal.next_segment(name) == wal.segment_name(timeline, (number + 1) * SEGMENT)
    assert wal.is_initialized(name, head(number * SEGMENT))
    assert not wal.is_initialized(wal.next_segment(name), head(number * SEGMENT))  # a recycled file
    assert not wal.is_initialized(name, b"")
