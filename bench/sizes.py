"""The sizes of measurements: the promised ones, or small ones that check in minutes that the bench works."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    parents_mb: tuple[int, ...] = (1024, 8192)  # branching: in addition to the new parent
    aged_scale: int = 64  # branching: pgbench scale, 15 MB each
    aging_rounds: int = 10
    aging_seconds: int = 20  # pgbench seconds per round
    tables: int = 5_000
    probe_seconds: float = 4.0  # branching: while branches are created one after another, and as long before
    undisturbed_seconds: float = 30.0  # branching: without branches, for a heavily written parent
    replicated_mb: int = 1024  # replica: in addition to the new parent
    pgbench_scale: int = 20  # throughput
    pgbench_seconds: int = 10
    gateway_seconds: int = 3  # gateway, pooling: pgbench seconds per load
    copied_mb: int = 200  # gateway
    restored_mb: int = 8192  # restoring: in addition to the new one
    restored_wal_mb: int = 64  # restoring: written before each restore
    history_seconds: int = 60  # archiving: seconds of the steady load
    computes: tuple[int, ...] = (10, 50, 200)  # density
    cloned_mb: int = 1024  # clone_size
    suspended: int = 200  # crowd: branches of one project
    running: int = 1000
    idle_seconds: int = 60  # crowd: seconds for the CPU time of control with idle computes
    sampled: int = 500  # sampling: running computes
    sampling_seconds: int = 60  # sampling: per window
    instant_calls: int = 20  # instant: per round
    instant_seconds: float = 5.0  # instant: sustained calls per round


FULL = Sizes()
SMALL = Sizes(
    parents_mb=(256,),
    aged_scale=4,
    aging_rounds=3,
    aging_seconds=2,
    tables=200,
    probe_seconds=1.0,
    undisturbed_seconds=1.0,
    replicated_mb=64,
    pgbench_scale=2,
    pgbench_seconds=2,
    gateway_seconds=1,
    copied_mb=20,
    restored_mb=256,
    restored_wal_mb=8,
    history_seconds=5,
    computes=(5, 8, 10),
    cloned_mb=256,
    suspended=10,
    running=10,
    idle_seconds=10,
    sampled=10,
    sampling_seconds=15,
    instant_calls=3,
    instant_seconds=1.0,
)


def format_size(megabytes: int) -> str:
    return f"{megabytes // 1024} GB" if megabytes % 1024 == 0 else f"{megabytes} MB"
