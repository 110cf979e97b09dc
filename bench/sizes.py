"""How much is measured: the sizes that are promised, or small ones that show in minutes that a file works."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    parents_mb: tuple[int, ...] = (1024, 8192)  # branching: beside the fresh parent
    plain_up_to_mb: int = 1024  # larger ones are not cloned by copying, beside the baseline that does
    aged_scale: int = 64  # branching: of pgbench, 15 MB each
    ageing_rounds: int = 10
    ageing_seconds: int = 20  # of pgbench, a round
    tables: int = 5_000
    pgbench_scale: int = 20  # throughput
    pgbench_seconds: int = 10
    gateway_seconds: int = 3  # gateway, pooling: of pgbench, a load
    copied_mb: int = 200  # gateway
    computes: tuple[int, ...] = (10, 50, 200)  # density
    cloned_mb: int = 1024  # clone_size


FULL = Sizes()
SMALL = Sizes(
    parents_mb=(64, 256),
    plain_up_to_mb=64,
    aged_scale=4,
    ageing_rounds=3,
    ageing_seconds=2,
    tables=200,
    pgbench_scale=2,
    pgbench_seconds=2,
    gateway_seconds=1,
    copied_mb=20,
    computes=(5, 8, 10),
    cloned_mb=256,
)


def in_words(megabytes: int) -> str:
    return f"{megabytes // 1024} GB" if megabytes % 1024 == 0 else f"{megabytes} MB"
