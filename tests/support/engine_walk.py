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
from bough.domain.gateway_protocol import ComputeAddress
from bough.engine.local.computes import postmaster
from bough.engine.local.computes.postmaster import PidFile
from bough.engine.local.folders import Folders
from bough.engine.local.isolation import processes
from bough.ids import EndpointId, ProjectId, VolumeId
from engine.control_child import CallArguments
from engine.control_process import ControlKilled, ControlProcess, EngineRejected
from support.engine_home import open_connection
from support.power_cut import Disk, simulate_power_cut

_TABLE = "create table if not exists walked (n bigint primary key, filler text default repeat('x', 300))"
_ROLE = "walker"
_TRIES = 50
_TIMEOUT = 90.0  # seconds; longer than the engine waits for anything but a long checkpoint
_CONNECTION_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


@dataclass(eq=False)
class WalkBranch:
    arguments: CallArguments
    parent: "WalkBranch | None" = None
    required_rows: set[int] = field(default_factory=set)  # rows that are in it for certain
    possible_rows: set[int] = field(default_factory=set)  # rows that were ever written to it, or to its parent before
    is_created: bool = False
    is_to_be_dropped: bool = False  # to be dropped, once it can be
    is_changed: bool = False  # it has a role of its own for certain
    is_read_only: bool = False  # it may be one that cannot be written
    unfinished: list[str] = field(default_factory=list)  # verbs whose end nobody saw

    def check_rows(self, rows: set[int]) -> str | None:
        if lost := self.required_rows - rows:
            return f"{self.arguments} lost {len(lost)} of {len(self.required_rows)} rows, such as {sorted(lost)[:5]}"
        if strange := rows - self.possible_rows:
            return f"{self.arguments} has {len(strange)} rows that nobody wrote to it, such as {sorted(strange)[:5]}"
        return None


class EngineWalk:
    """With a disk, the power is cut where control is killed otherwise."""

    def __init__(self, settings: Settings, dice: random.Random, *, most: int, disk: Disk | None = None) -> None:
        self.control = ControlProcess(settings)
        self.branches: list[WalkBranch] = []
        self.calls = 0
        self.kills = {"control": 0, "postmaster": 0, "session": 0}
        self._disk = disk
        self._cuts = 0  # of the power: what is heard after one was said by a machine that is no more
        self._settings = settings
        self._folders = Folders(settings)
        self._dice = dice
        self._max_branches = most
        self._rows = itertools.count(1)

    async def run(self, calls: int) -> None:
        await self.control.start()
        while self.calls < calls:
            await self._round()

    async def read_rows(self, branch: WalkBranch) -> set[int]:
        """What the branch holds; its compute runs afterwards. It may still recover from the end of a session."""
        await self._until_done(branch, "ensure_running")
        for _ in range(_TRIES):
            with suppress(asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError, OSError):
                return await self._read(branch)
            await asyncio.sleep(0.1)
        raise AssertionError(f"{branch.arguments} never recovered")

    async def drop_branch(self, branch: WalkBranch) -> None:
        for verb in ("ensure_suspended", "ensure_absent"):
            if not await self._do(branch, verb):
                branch.is_to_be_dropped = True
                return
        self.branches.remove(branch)

    def address(self, branch: WalkBranch) -> ComputeAddress:
        return ComputeAddress(host=str(self._settings.sockets / branch.arguments.endpoint), port=5432)

    async def _round(self) -> None:
        """Some verbs at once, with writers beside them, and maybe a kill in the middle."""
        grows = len(self.branches) < self._max_branches and self._dice.random() < 0.7
        doomed = None if grows or not self.branches else self._dice.choice(self._childless())
        others = [branch for branch in self.branches if branch is not doomed]
        moves = (
            self._start_compute,
            self._start_compute,
            self._suspend_compute,
            self._inspect,
            self._change,
            self._make_read_only,
            self._keep_history,
        )
        work = [self._write(branch, self._dice.randint(1, 20)) for branch in self._some(others, 2)]
        work += [self._dice.choice(moves)(branch) for branch in self._some(others, self._dice.randint(0, 2))]
        work.append(self.drop_branch(doomed) if doomed else self._create_branch())
        await _run_all([*work, self._inject_fault(self._dice.random())])
        while any(branch.unfinished for branch in self.branches):
            await self._finish()

    def _childless(self) -> list[WalkBranch]:
        """Nobody's history stands on these."""
        parents = {branch.parent for branch in self.branches}
        return [branch for branch in self.branches if branch not in parents]

    def _some(self, branches: list[WalkBranch], count: int) -> list[WalkBranch]:
        return self._dice.sample(branches, min(count, len(branches)))

    async def _finish(self) -> None:
        """What was cut off is repeated, or given up and undone. Control may be killed meanwhile, too."""
        cut_off = [branch for branch in self.branches if branch.unfinished]
        work = [self._repeat(branch, gives_up=self._dice.random() < 0.2) for branch in cut_off]
        await _run_all([*work, self._inject_fault(self._dice.random() * 4)])

    async def _repeat(self, branch: WalkBranch, *, gives_up: bool) -> None:
        if branch.is_to_be_dropped or (gives_up and not branch.is_created):
            await self.drop_branch(branch)
            return
        for verb in dict.fromkeys(branch.unfinished):
            await self._until_done(branch, verb)

    async def _create_branch(self) -> None:
        parent = self._dice.choice(self.branches) if self.branches and self._dice.random() < 0.6 else None
        names = CallArguments(
            project=parent.arguments.project if parent else ProjectId.new(),
            volume=VolumeId.new(),
            endpoint=EndpointId.new(),
            parent=parent.arguments.volume if parent else None,
            warm=self._dice.random() < 0.7,
            role=_ROLE,
        )
        branch = WalkBranch(names, parent, set(parent.required_rows) if parent else set())
        self.branches.append(branch)
        wakes = self._dice.random() < 0.7
        if await self._do(branch, "ensure_branch") and wakes:
            await self._start_compute(branch)

    async def _start_compute(self, branch: WalkBranch) -> None:
        await self._do(branch, "ensure_running")

    async def _suspend_compute(self, branch: WalkBranch) -> None:
        await self._do(branch, "ensure_suspended")

    async def _inspect(self, branch: WalkBranch) -> None:
        await self._do(branch, "usage")
        await self._do(branch, "observe")

    async def _change(self, branch: WalkBranch) -> None:
        if not branch.is_read_only or await self._do(branch, "ensure_running"):
            await self._do(branch, "change")

    async def _keep_history(self, branch: WalkBranch) -> None:
        await self._do(branch, "keep_history")

    async def _make_read_only(self, branch: WalkBranch) -> None:
        branch.is_read_only = True
        await self._do(branch, "ensure_still")

    async def _write(self, branch: WalkBranch, count: int) -> None:
        """If it runs, and as long as it does. The driver may wait for ever for a server that is gone."""
        cuts = self._cuts
        with suppress(*_CONNECTION_ERRORS):
            async with asyncio.timeout(_TIMEOUT), open_connection(self.address(branch)) as db:
                await db.execute(_TABLE)
                for row in itertools.islice(self._rows, count):
                    branch.possible_rows.add(row)
                    await db.execute("insert into walked values ($1)", row)
                    if self._cuts != cuts:
                        return
                    branch.required_rows.add(row)
                await db.execute("update walked set filler = filler || 'x' where n % 7 = 0")

    async def _read(self, branch: WalkBranch) -> set[int]:
        async with open_connection(self.address(branch)) as db:
            await db.execute(_TABLE)
            if branch.is_changed:
                assert await db.fetchval("select count(*) from pg_roles where rolname = $1", _ROLE) == 1
            return {n for (n,) in await db.fetch("select n from walked")}

    async def _until_done(self, branch: WalkBranch, verb: str) -> None:
        for _ in range(_TRIES):
            if await self._do(branch, verb):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{verb} of {branch.arguments} never succeeded")

    async def _do(self, branch: WalkBranch, verb: str) -> bool:
        """Whether the verb was done; it is unfinished when control was killed, or said to try again."""
        self.calls += 1
        branch.unfinished.append(verb)
        cuts = self._cuts
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self.control.call(verb, branch.arguments)
        except ControlKilled:
            return False
        except EngineRejected as refusal:
            if not refusal.transient and self._cuts == cuts:
                raise
            return False
        if self._cuts != cuts:
            return False
        branch.unfinished = [each for each in branch.unfinished if each != verb]
        branch.is_changed = branch.is_changed or verb == "change"
        branch.is_read_only = branch.is_read_only and verb != "ensure_running"
        if verb == "ensure_branch":
            branch.is_created = True
            branch.possible_rows |= branch.parent.possible_rows if branch.parent else set()
        return True

    async def _inject_fault(self, luck: float) -> None:
        delay = self._dice.uniform(0, 0.4)
        await asyncio.sleep(delay)
        if luck < 0.3:
            self.kills["control"] += 1
            if self._disk is not None:
                self._cuts += 1
                self._disk.cut_power()
            self.control.kill()
            await self.control.wait()
            if self._disk is not None:
                simulate_power_cut(self._disk, self._settings)
            await self.control.start()
        elif luck < 0.6:
            self._kill_some_process("postmaster" if luck < 0.45 else "session")

    def _kill_some_process(self, kind: str) -> None:
        """Of any compute, spares too."""
        served = [data for data in sorted(self._folders.volumes.glob("*/data")) if postmaster.is_alive(data)]
        file = PidFile.read(self._dice.choice(served)) if served else None
        if file is None:
            return
        pids = [file.pid] if kind == "postmaster" else processes.list_children(file.pid)
        if pids:
            self.kills[kind] += 1
            with suppress(ProcessLookupError):
                os.kill(self._dice.choice(pids), signal.SIGKILL)


async def _run_all(work: list[Coroutine[Any, Any, None]]) -> None:
    """All of it ends, whatever becomes of one; then the first error counts."""
    for outcome in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def reserve_uid_range() -> tuple[int, int]:
    """A range that no test beside this one is lent from, so that whatever is left of one is ours."""
    first = 2_001_000_000 + secrets.randbelow(100_000) * 1000
    return first, first + 1000
