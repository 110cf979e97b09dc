"""A walk through the lives of a primary and its replicas: in the end each shows all that was written.

What a replica cannot mend by itself is mended as `tasks/keep_replicas.py` does it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

import pytest

from bough.config import Settings
from bough.domain.change import SetPassword
from bough.engine.local.engine import LocalEngine
from bough.engine.port import Following, Readiness
from engine.consistency import Machine
from engine.followers import KEEPS_LITTLE, PATIENCE, follower_of, following, numbers, write, write_much
from engine.homes import ROLE, VERIFIER, Compute, Home, branch_of


class Walk:
    def __init__(self, home: Home, primary: Compute, seed: int) -> None:
        self._home = home
        self._primary = primary
        self._replicas = [follower_of(primary) for _ in range(2)]
        self._random = random.Random(seed)
        self._written = 0
        self.steps: list[str] = []

    async def step(self) -> None:
        verb = self._random.choice(_VERBS)
        self.steps.append(verb.__name__)
        await verb(self)

    async def settle(self) -> None:
        """Everything runs, and every replica has all."""
        await self._primary.run()
        await self.write()
        for replica in self._replicas:
            until = time.monotonic() + PATIENCE
            while await replica.run() is not Readiness.READY or len(await numbers(replica)) != self._written:
                assert time.monotonic() < until, f"{await following(replica)} after {self.steps}"
                await self._keep(replica)
                await asyncio.sleep(0.1)

    async def write(self) -> None:
        if await self._primary.address() is not None:
            self._written += 1
            await write(self._primary, self._written)

    async def write_much(self) -> None:
        if await self._primary.address() is not None:
            await write_much(self._primary, self._random.choice((1, 12, 24)))

    async def start_primary(self) -> None:
        await self._primary.run()

    async def stop_primary(self) -> None:
        await self._primary.suspend()

    async def kill_primary(self) -> None:
        if await self._primary.address() is not None:
            await self._primary.kill()

    async def start_replica(self) -> None:
        await self._random.choice(self._replicas).run()

    async def stop_replica(self) -> None:
        await self._random.choice(self._replicas).suspend()

    async def kill_replica(self) -> None:
        replica = self._random.choice(self._replicas)
        if await replica.address() is not None:
            await replica.kill()

    async def drop_replica(self) -> None:
        replica = self._random.choice(self._replicas)
        await replica.suspend()
        await replica.absent()

    async def start_all_at_once(self) -> None:
        await asyncio.gather(*(each.run() for each in self._random.sample([self._primary, *self._replicas], 3)))

    async def change(self) -> None:
        await self._home.engine.change(branch_of(self._primary.spec), SetPassword(name=ROLE, verifier=VERIFIER))

    async def another_control(self) -> None:
        await self._home.engine.close()
        self._home.engine = LocalEngine(self._home.settings)
        await self._home.engine.prepare()

    async def keep(self) -> None:
        for replica in self._replicas:
            await self._keep(replica)

    async def _keep(self, replica: Compute) -> None:
        seen = await following(replica)
        if seen in (Following.BEHIND, Following.LOST):
            await replica.suspend()
        if seen is Following.LOST:
            await replica.absent()
        if seen in (Following.BEHIND, Following.LOST, Following.WAITS):
            await replica.run()


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
async def test_a_walk(settings: Settings, seed: int, long: bool) -> None:
    async with Home.opened(settings) as home:
        machine = Machine(settings)
        primary = await home.compute(settings=KEEPS_LITTLE)
        walk = Walk(home, primary, seed)
        for _ in range(20 if long else 4):
            for _ in range(12):
                await walk.step()
            await walk.settle()
            assert machine.disorder() == []
