"""How much is measured: the sizes that are promised, or small ones that show in minutes that a file works."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    parents_mb: tuple[int, ...] = (1024, 8192)  # branching: beside the fresh parent
    aged_scale: int = 64  # branching: of pgbench, 15 MB each
    ageing_rounds: int = 10
    ageing_seconds: int = 20  # of pgbench, a round
    tables: int = 5_000
    probe_seconds: float = 4.0  # branching: while branches are made one after another, and before for as long
    undisturbed_seconds: float = 30.0  # branching: while none is made, of a parent that was much written
    replicated_mb: int = 1024  # replica: beside the fresh parent
    pgbench_scale: int = 20  # throughput
    pgbench_seconds: int = 10
    gateway_seconds: int = 3  # gateway, pooling: of pgbench, a load
    copied_mb: int = 200  # gateway
    restored_mb: int = 8192  # restoring: beside the fresh one
    restored_wal_mb: int = 64  # restoring: written before each
    history_seconds: int = 60  # archiving: of a steady load
    computes: tuple[int, ...] = (10, 50, 200)  # density
    cloned_mb: int = 1024  # clone_size
    sleeping: int = 200  # crowd: branches of one project
    running: int = 1000
    idle_seconds: int = 60  # crowd: of control beside computes that run and do nothing
    instant_calls: int = 20  # instant: a round
    instant_seconds: float = 5.0  # of callers without a pause, a round


FULL = Sizes()
SMALL = Sizes(
    parents_mb=(256,),
    aged_scale=4,
    ageing_rounds=3,
    ageing_seconds=2,
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
    sleeping=10,
    running=10,
    idle_seconds=10,
    instant_calls=3,
    instant_seconds=1.0,
)


def format_size(megabytes: int) -> str:
    return f"{megabytes // 1024} GB" if megabytes % 1024 == 0 else f"{megabytes} MB"
