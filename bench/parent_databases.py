"""The databases that are branched: new, large, aged, and with many tables.

Each is filled by ordinary statements, so that the server of the baseline contains the same data.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bench import pgbench
from bench.engine_home import connect
from bench.latency_probe import ProbeRows
from bench.pgbench import TPC_B, ServerTarget
from bench.sizes import Sizes, format_size

FRESH_MB = 40
_ROWS_A_MB = 1024  # rows of a kilobyte, eight per page
_STEP_MB = 256
_TABLES_A_TRANSACTION = 250  # each table takes locks
# No WAL for tables created in the same transaction, and little retained WAL: only while a parent is filled.
LOAD_SETTINGS = {"wal_level": "minimal", "max_wal_senders": "0", "max_wal_size": "128MB"}

_ROWS = "create table if not exists rows_of_a_kb (id bigint primary key, filling text not null)"
_FILL = "insert into rows_of_a_kb select n, repeat(md5(n::text), 30) from generate_series({first}, {last}) n"
_TABLE = "create table table_{number} (id bigint primary key, words text)"

FillFunction = Callable[[ServerTarget], Coroutine[Any, Any, None]]
CloneFunction = Callable[[], None]  # creates a clone that is kept
AgeFunction = Callable[[CloneFunction, ServerTarget], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentKind:
    name: str
    megabytes: int  # about
    rows: ProbeRows  # for the latency probes
    fill: FillFunction
    age: AgeFunction | None = None
    clones: int = 0  # kept by aging; random writes between them may separate all their blocks
    is_fresh: bool = False  # filled once and never written again: differs from others by its size only


def list_parent_kinds(sizes: Sizes) -> list[ParentKind]:
    """List the smallest first."""
    return [small_parent(), *map(parent_of_size, sizes.parents_mb), _aged(sizes), _many_tables(sizes)]


def small_parent() -> ParentKind:
    return replace(parent_of_size(1), name=format_size(FRESH_MB), megabytes=FRESH_MB)


def parent_of_size(megabytes: int) -> ParentKind:
    return ParentKind(
        name=format_size(megabytes),
        megabytes=megabytes,
        rows=_rows(megabytes),
        fill=partial(_fill_rows, megabytes),
        is_fresh=True,
    )


def _aged(sizes: Sizes) -> ParentKind:
    rows = ProbeRows(
        count=sizes.aged_scale * 100_000,
        read="select abalance from pgbench_accounts where aid = $1::bigint",
        write="update pgbench_accounts set abalance = abalance + 1 where aid = $1::bigint",
    )
    return ParentKind(
        name=f"{format_size(sizes.aged_scale * 16)}, aged",
        megabytes=sizes.aged_scale * 16,
        rows=rows,
        fill=partial(_fill_pgbench, sizes.aged_scale),
        age=partial(_age, sizes.aging_rounds, sizes.aging_seconds),
        clones=sizes.aging_rounds,
    )


def _many_tables(sizes: Sizes) -> ParentKind:
    return ParentKind(
        name=f"{sizes.tables:,} tables",
        megabytes=FRESH_MB + sizes.tables * 24 // 1024,
        rows=_rows(1),
        fill=partial(_fill_tables, sizes.tables),
    )


def _rows(megabytes: int) -> ProbeRows:
    return ProbeRows(
        count=megabytes * _ROWS_A_MB,
        read="select filling from rows_of_a_kb where id = $1::bigint",
        write="update rows_of_a_kb set filling = reverse(filling) where id = $1::bigint",
    )


async def _fill_rows(megabytes: int, target: ServerTarget) -> None:
    async with connect(target) as session:
        async with session.transaction():
            await session.execute(_ROWS)
            for begin in range(0, megabytes, _STEP_MB):
                end = min(begin + _STEP_MB, megabytes)
                await session.execute(_FILL.format(first=begin * _ROWS_A_MB + 1, last=end * _ROWS_A_MB))
        # Sets hint bits, as in an older database: otherwise the first reader of a page writes it.
        await session.execute("vacuum (freeze, analyze) rows_of_a_kb")


async def _fill_pgbench(scale: int, target: ServerTarget) -> None:
    pgbench.initialize(target, scale)


async def _fill_tables(count: int, target: ServerTarget) -> None:
    await _fill_rows(1, target)
    async with connect(target) as session:
        for begin in range(0, count, _TABLES_A_TRANSACTION):
            numbers = range(begin, min(begin + _TABLES_A_TRANSACTION, count))
            await session.execute(";\n".join(_TABLE.format(number=number) for number in numbers))


def _age(rounds: int, seconds: int, clone: CloneFunction, target: ServerTarget) -> None:
    """Create clones with random writes between them, so that shared blocks are scattered."""
    for _ in range(rounds):
        clone()
        pgbench.measure_tps(target, TPC_B, seconds)
