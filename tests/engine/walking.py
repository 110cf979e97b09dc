"""A random walk over the engine's verbs, while the control process and computes are killed.

`Branch` is what must be true of one branch: rows whose commit was answered are in it, and none is in
it that nobody wrote. `Walk` rolls the dice, and repeats what was cut off as the operations do.
"""

import asyncio
import itertools
import os
import random
import secrets
import signal
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from bough.config import Settings
from bough.engine.local.computes import postmaster
from bough.engine.local.computes.postmaster import PidFile
from bough.engine.local.folders import Folders
from bough.engine.local.isolation import processes
from bough.engine.port import Address
from bough.ids import EndpointId, ProjectId, VolumeId
from engine.control import Control, Killed, Refused
from engine.control_child import Given
from engine.homes import connected
from engine.power import Disk, power_cut

_TABLE = "create table if not exists walked (n bigint primary key, filler text default repeat('x', 300))"
_ROLE = "walker"
_TRIES = 50
_PATIENCE = 90.0  # seconds; longer than the engine waits for anything but a long checkpoint
_BROKEN = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


@dataclass(eq=False)
class Branch:
    names: Given
    parent: "Branch | None" = None
    must: set[int] = field(default_factory=set)  # rows that are in it for certain
    may: set[int] = field(default_factory=set)  # rows that were ever written to it, or to its parent before
    is_made: bool = False
    is_doomed: bool = False  # to be dropped, once it can be
    is_changed: bool = False  # it has a role of its own for certain
    is_still: bool = False  # it may be one that cannot be written
    unfinished: list[str] = field(default_factory=list)  # verbs whose end nobody saw

    def verdict(self, rows: set[int]) -> str | None:
        if lost := self.must - rows:
            return f"{self.names} lost {len(lost)} of {len(self.must)} rows, such as {sorted(lost)[:5]}"
        if strange := rows - self.may:
            return f"{self.names} has {len(strange)} rows that nobody wrote to it, such as {sorted(strange)[:5]}"
        return None


class Walk:
    """With a disk, the power is cut where control is killed otherwise."""

    def __init__(self, settings: Settings, dice: random.Random, *, most: int, disk: Disk | None = None) -> None:
        self.control = Control(settings)
        self.branches: list[Branch] = []
        self.calls = 0
        self.kills = {"control": 0, "postmaster": 0, "session": 0}
        self._disk = disk
        self._cuts = 0  # of the power: what is heard after one was said by a machine that is no more
        self._settings = settings
        self._folders = Folders(settings)
        self._dice = dice
        self._most = most
        self._rows = itertools.count(1)

    async def go(self, calls: int) -> None:
        await self.control.start()
        while self.calls < calls:
            await self._round()

    async def rows(self, branch: Branch) -> set[int]:
        """What the branch holds; its compute runs afterwards. It may still recover from the end of a session."""
        await self._until_done(branch, "ensure_running")
        for _ in range(_TRIES):
            with suppress(asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError, OSError):
                return await self._read(branch)
            await asyncio.sleep(0.1)
        raise AssertionError(f"{branch.names} never recovered")

    async def drop(self, branch: Branch) -> None:
        for verb in ("ensure_suspended", "ensure_absent"):
            if not await self._do(branch, verb):
                branch.is_doomed = True
                return
        self.branches.remove(branch)

    def address(self, branch: Branch) -> Address:
        return Address(host=str(self._settings.sockets / branch.names.endpoint), port=5432)

    async def _round(self) -> None:
        """Some verbs at once, with writers beside them, and maybe a kill in the middle."""
        grows = len(self.branches) < self._most and self._dice.random() < 0.7
        doomed = None if grows or not self.branches else self._dice.choice(self._childless())
        others = [branch for branch in self.branches if branch is not doomed]
        moves = (self._wake, self._wake, self._sleep, self._look, self._change, self._stand, self._keep)
        work = [self._write(branch, self._dice.randint(1, 20)) for branch in self._some(others, 2)]
        work += [self._dice.choice(moves)(branch) for branch in self._some(others, self._dice.randint(0, 2))]
        work.append(self.drop(doomed) if doomed else self._grow())
        await _together([*work, self._trouble(self._dice.random())])
        while any(branch.unfinished for branch in self.branches):
            await self._finish()

    def _childless(self) -> list[Branch]:
        """Nobody's history stands on these."""
        parents = {branch.parent for branch in self.branches}
        return [branch for branch in self.branches if branch not in parents]

    def _some(self, branches: list[Branch], count: int) -> list[Branch]:
        return self._dice.sample(branches, min(count, len(branches)))

    async def _finish(self) -> None:
        """What was cut off is repeated, or given up and undone. Control may be killed meanwhile, too."""
        cut_off = [branch for branch in self.branches if branch.unfinished]
        work = [self._repeat(branch, gives_up=self._dice.random() < 0.2) for branch in cut_off]
        await _together([*work, self._trouble(self._dice.random() * 4)])

    async def _repeat(self, branch: Branch, *, gives_up: bool) -> None:
        if branch.is_doomed or (gives_up and not branch.is_made):
            await self.drop(branch)
            return
        for verb in dict.fromkeys(branch.unfinished):
            await self._until_done(branch, verb)

    async def _grow(self) -> None:
        parent = self._dice.choice(self.branches) if self.branches and self._dice.random() < 0.6 else None
        names = Given(
            project=parent.names.project if parent else ProjectId.new(),
            volume=VolumeId.new(),
            endpoint=EndpointId.new(),
            parent=parent.names.volume if parent else None,
            warm=self._dice.random() < 0.7,
            role=_ROLE,
        )
        branch = Branch(names, parent, set(parent.must) if parent else set())
        self.branches.append(branch)
        wakes = self._dice.random() < 0.7
        if await self._do(branch, "ensure_branch") and wakes:
            await self._wake(branch)

    async def _wake(self, branch: Branch) -> None:
        await self._do(branch, "ensure_running")

    async def _sleep(self, branch: Branch) -> None:
        await self._do(branch, "ensure_suspended")

    async def _look(self, branch: Branch) -> None:
        await self._do(branch, "usage")
        await self._do(branch, "observe")

    async def _change(self, branch: Branch) -> None:
        if not branch.is_still or await self._do(branch, "ensure_running"):
            await self._do(branch, "change")

    async def _keep(self, branch: Branch) -> None:
        await self._do(branch, "keep_history")

    async def _stand(self, branch: Branch) -> None:
        branch.is_still = True
        await self._do(branch, "ensure_still")

    async def _write(self, branch: Branch, count: int) -> None:
        """If it runs, and as long as it does. The driver may wait for ever for a server that is gone."""
        cuts = self._cuts
        with suppress(*_BROKEN):
            async with asyncio.timeout(_PATIENCE), connected(self.address(branch)) as db:
                await db.execute(_TABLE)
                for row in itertools.islice(self._rows, count):
                    branch.may.add(row)
                    await db.execute("insert into walked values ($1)", row)
                    if self._cuts != cuts:
                        return
                    branch.must.add(row)
                await db.execute("update walked set filler = filler || 'x' where n % 7 = 0")

    async def _read(self, branch: Branch) -> set[int]:
        async with connected(self.address(branch)) as db:
            await db.execute(_TABLE)
            if branch.is_changed:
                assert await db.fetchval("select count(*) from pg_roles where rolname = $1", _ROLE) == 1
            return {n for (n,) in await db.fetch("select n from walked")}

    async def _until_done(self, branch: Branch, verb: str) -> None:
        for _ in range(_TRIES):
            if await self._do(branch, verb):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{verb} of {branch.names} never succeeded")

    async def _do(self, branch: Branch, verb: str) -> bool:
        """Whether the verb was done; it is unfinished when control was killed, or said to try again."""
        self.calls += 1
        branch.unfinished.append(verb)
        cuts = self._cuts
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.control.call(verb, branch.names)
        except Killed:
            return False
        except Refused as refusal:
            if not refusal.transient and self._cuts == cuts:
                raise
            return False
        if self._cuts != cuts:
            return False
        branch.unfinished = [each for each in branch.unfinished if each != verb]
        branch.is_changed = branch.is_changed or verb == "change"
        branch.is_still = branch.is_still and verb != "ensure_running"
        if verb == "ensure_branch":
            branch.is_made = True
            branch.may |= branch.parent.may if branch.parent else set()
        return True

    async def _trouble(self, luck: float) -> None:
        delay = self._dice.uniform(0, 0.4)
        await asyncio.sleep(delay)
        if luck < 0.3:
            self.kills["control"] += 1
            if self._disk is not None:
                self._cuts += 1
                self._disk.cut()
            self.control.kill()
            await self.control.gone()
            if self._disk is not None:
                power_cut(self._disk, self._settings)
            await self.control.start()
        elif luck < 0.6:
            self._kill_some_process("postmaster" if luck < 0.45 else "session")

    def _kill_some_process(self, kind: str) -> None:
        """Of any compute, spares too."""
        served = [data for data in sorted(self._folders.volumes.glob("*/data")) if postmaster.is_alive(data)]
        file = PidFile.read(self._dice.choice(served)) if served else None
        if file is None:
            return
        pids = [file.pid] if kind == "postmaster" else processes.children(file.pid)
        if pids:
            self.kills[kind] += 1
            with suppress(ProcessLookupError):
                os.kill(self._dice.choice(pids), signal.SIGKILL)


async def _together(work: list[Coroutine[Any, Any, None]]) -> None:
    """All of it ends, whatever becomes of one; then the first error counts."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def own_uids() -> tuple[int, int]:
    """A range that no test beside this one is lent from, so that whatever is left of one is ours."""
    first = 2_001_000_000 + secrets.randbelow(100_000) * 1000
    return first, first + 1000
