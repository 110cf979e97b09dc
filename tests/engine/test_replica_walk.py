"""A random walk through starts, stops and crashes of a primary and its replicas. In the end each has all rows.

A replica that cannot recover by itself is repaired as `tasks/repair_replicas.py` does.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

import pytest

from bough.config import Settings
from bough.domain.catalog_change import SetPassword
from bough.engine.local.engine import LocalEngine
from bough.engine.port import Readiness, ReplicaState
from support.engine_home import ROLE, VERIFIER, Compute, EngineHome, make_branch_spec
from support.home_consistency import HomeConsistency
from support.replicas import (
    SMALL_SLOT_SETTINGS,
    TIMEOUT,
    get_replication_state,
    insert_numbers,
    plan_replica,
    read_numbers,
    write_wal,
)


class Walk:
    def __init__(self, home: EngineHome, primary: Compute, seed: int) -> None:
        self._home = home
        self._primary = primary
        self._replicas = [plan_replica(primary) for _ in range(2)]
        self._random = random.Random(seed)
        self._written = 0
        self.steps: list[str] = []

    async def step(self) -> None:
        verb = self._random.choice(_VERBS)
        self.steps.append(verb.__name__)
        await verb(self)

    async def settle(self) -> None:
        """Run everything, and wait until every replica has all rows."""
        await self._primary.start()
        await self.write()
        for replica in self._replicas:
            until = time.monotonic() + TIMEOUT
            while await replica.start() is not Readiness.READY or len(await read_numbers(replica)) != self._written:
                assert time.monotonic() < until, f"{await get_replication_state(replica)} after {self.steps}"
                await self._keep(replica)
                await asyncio.sleep(0.1)

    async def write(self) -> None:
        if await self._primary.get_address() is not None:
            self._written += 1
            await insert_numbers(self._primary, self._written)

    async def write_much(self) -> None:
        if await self._primary.get_address() is not None:
            await write_wal(self._primary, self._random.choice((1, 12, 24)))

    async def start_primary(self) -> None:
        await self._primary.start()

    async def stop_primary(self) -> None:
        await self._primary.suspend()

    async def kill_primary(self) -> None:
        if await self._primary.get_address() is not None:
            await self._primary.kill()

    async def start_replica(self) -> None:
        await self._random.choice(self._replicas).start()

    async def stop_replica(self) -> None:
        await self._random.choice(self._replicas).suspend()

    async def kill_replica(self) -> None:
        replica = self._random.choice(self._replicas)
        if await replica.get_address() is not None:
            await replica.kill()

    async def drop_replica(self) -> None:
        replica = self._random.choice(self._replicas)
        await replica.suspend()
        await replica.delete()

    async def start_all_at_once(self) -> None:
        await asyncio.gather(*(each.start() for each in self._random.sample([self._primary, *self._replicas], 3)))

    async def change(self) -> None:
        await self._home.engine.apply_change(
            make_branch_spec(self._primary.spec), SetPassword(name=ROLE, verifier=VERIFIER)
        )

    async def another_control(self) -> None:
        await self._home.engine.close()
        self._home.engine = LocalEngine(self._home.settings)
        await self._home.engine.prepare()

    async def keep(self) -> None:
        for replica in self._replicas:
            await self._keep(replica)

    async def _keep(self, replica: Compute) -> None:
        seen = await get_replication_state(replica)
        if seen in (ReplicaState.BEHIND, ReplicaState.LOST):
            await replica.suspend()
        if seen is ReplicaState.LOST:
            await replica.delete()
        if seen in (ReplicaState.BEHIND, ReplicaState.LOST, ReplicaState.WAITING):
            await replica.start()


_VERBS: tuple[Callable[[Walk], Awaitable[None]], ...] = (
    Walk.write,
    Walk.write,
    Walk.write_much,
    Walk.start_primary,
    Walk.stop_primary,
    Walk.kill_primary,
    Walk.start_replica,
    Walk.start_replica,
    Walk.stop_replica,
    Walk.kill_replica,
    Walk.drop_replica,
    Walk.start_all_at_once,
    Walk.change,
    Walk.another_control,
    Walk.keep,
)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_a_walk(settings: Settings, seed: int, is_long_run: bool) -> None:
    async with EngineHome.open(settings) as home:
        machine = HomeConsistency(settings)
        primary = await home.create_compute(settings=SMALL_SLOT_SETTINGS)
        walk = Walk(home, primary, seed)
        for _ in range(20 if is_long_run else 4):
            for _ in range(12):
                await walk.step()
            await walk.settle()
            assert machine.find_inconsistencies() == []
