"""A random walk over the methods of the engine, while the control process and computes are killed.

`WalkBranch` records what a branch must contain: all rows whose commit was confirmed, and no row that was not written.
`EngineWalk` chooses random calls and repeats interrupted ones, as operations do.
"""

import asyncio
import itertools
import os
import random
import signal
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from bough.config import Settings
from bough.domain.gateway_protocol import ComputeAddress
from bough.engine.local.computes import postmaster
from bough.engine.local.computes.pid_file import PidFile
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
_TIMEOUT = 90.0  # seconds; the engine waits longer only for a long checkpoint
_CONNECTION_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


@dataclass(eq=False)
class WalkBranch:
    arguments: CallArguments
    parent: "WalkBranch | None" = None
    required_rows: set[int] = field(default_factory=set)  # rows that it must contain
    possible_rows: set[int] = field(default_factory=set)  # rows written to it, or to its parent before it was created
    is_created: bool = False
    is_to_be_dropped: bool = False  # dropped as soon as possible
    is_changed: bool = False  # it must have the role _ROLE
    is_read_only: bool = False  # its compute may be read-only
    unfinished: list[str] = field(default_factory=list)  # calls that were interrupted

    def check_rows(self, rows: set[int]) -> str | None:
        if lost := self.required_rows - rows:
            return f"{self.arguments} lost {len(lost)} of {len(self.required_rows)} rows, such as {sorted(lost)[:5]}"
        if unexpected := rows - self.possible_rows:
            return f"{self.arguments} has {len(unexpected)} rows never written to it, such as {sorted(unexpected)[:5]}"
        return None


class EngineWalk:
    """With a disk, it cuts the power instead of killing control."""

    def __init__(self, settings: Settings, rng: random.Random, *, max_branches: int, disk: Disk | None = None) -> None:
        self.control = ControlProcess(settings)
        self.branches: list[WalkBranch] = []
        self.calls = 0
        self.kills = {"control": 0, "postmaster": 0, "session": 0}
        self._disk = disk
        self._power_cuts = 0  # power cuts; a reply from before a cut is ignored after it
        self._settings = settings
        self._folders = Folders(settings)
        self._rng = rng
        self._max_branches = max_branches
        self._rows = itertools.count(1)

    async def run(self, calls: int) -> None:
        await self.control.start()
        while self.calls < calls:
            await self._round()

    async def read_rows(self, branch: WalkBranch) -> set[int]:
        """Start the compute and return the rows. Postgres may still be recovering from a killed session."""
        await self._until_done(branch, "ensure_running")
        for _ in range(_TRIES):
            with suppress(asyncpg.CannotConnectNowError, asyncpg.ConnectionDoesNotExistError, OSError):
                return await self._read(branch)
            await asyncio.sleep(0.1)
        raise AssertionError(f"{branch.arguments} never recovered")

    async def drop_branch(self, branch: WalkBranch) -> None:
        for method in ("ensure_suspended", "ensure_absent"):
            if not await self._do(branch, method):
                branch.is_to_be_dropped = True
                return
        self.branches.remove(branch)

    def address(self, branch: WalkBranch) -> ComputeAddress:
        return ComputeAddress(host=str(self._settings.sockets / branch.arguments.endpoint), port=5432)

    async def _round(self) -> None:
        """Run some calls and writers concurrently, possibly with a fault."""
        creates = len(self.branches) < self._max_branches and self._rng.random() < 0.7
        dropped = None if creates or not self.branches else self._rng.choice(self._branches_without_children())
        others = [branch for branch in self.branches if branch is not dropped]
        calls = (
            self._start_compute,
            self._start_compute,
            self._suspend_compute,
            self._inspect,
            self._change,
            self._make_read_only,
            self._keep_history,
        )
        coroutines = [self._write(branch, self._rng.randint(1, 20)) for branch in self._some(others, 2)]
        coroutines += [self._rng.choice(calls)(branch) for branch in self._some(others, self._rng.randint(0, 2))]
        coroutines.append(self.drop_branch(dropped) if dropped else self._create_branch())
        await _run_all([*coroutines, self._inject_fault(self._rng.random())])
        while any(branch.unfinished for branch in self.branches):
            await self._finish()

    def _branches_without_children(self) -> list[WalkBranch]:
        parents = {branch.parent for branch in self.branches}
        return [branch for branch in self.branches if branch not in parents]

    def _some(self, branches: list[WalkBranch], count: int) -> list[WalkBranch]:
        return self._rng.sample(branches, min(count, len(branches)))

    async def _finish(self) -> None:
        """Repeat interrupted calls, or undo them. Control may be killed meanwhile."""
        interrupted = [branch for branch in self.branches if branch.unfinished]
        coroutines = [self._repeat(branch, gives_up=self._rng.random() < 0.2) for branch in interrupted]
        await _run_all([*coroutines, self._inject_fault(self._rng.random() * 4)])

    async def _repeat(self, branch: WalkBranch, *, gives_up: bool) -> None:
        if branch.is_to_be_dropped or (gives_up and not branch.is_created):
            await self.drop_branch(branch)
            return
        for method in dict.fromkeys(branch.unfinished):
            await self._until_done(branch, method)

    async def _create_branch(self) -> None:
        parent = self._rng.choice(self.branches) if self.branches and self._rng.random() < 0.6 else None
        arguments = CallArguments(
            project=parent.arguments.project if parent else ProjectId.new(),
            volume=VolumeId.new(),
            endpoint=EndpointId.new(),
            parent=parent.arguments.volume if parent else None,
            warm=self._rng.random() < 0.7,
            role=_ROLE,
        )
        branch = WalkBranch(arguments, parent, set(parent.required_rows) if parent else set())
        self.branches.append(branch)
        starts = self._rng.random() < 0.7
        if await self._do(branch, "ensure_branch") and starts:
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
        """Write rows while the compute runs. The driver may wait forever for a killed server, hence the timeout."""
        cuts = self._power_cuts
        with suppress(*_CONNECTION_ERRORS):
            async with asyncio.timeout(_TIMEOUT), open_connection(self.address(branch)) as db:
                await db.execute(_TABLE)
                for row in itertools.islice(self._rows, count):
                    branch.possible_rows.add(row)
                    await db.execute("insert into walked values ($1)", row)
                    if self._power_cuts != cuts:
                        return
                    branch.required_rows.add(row)
                await db.execute("update walked set filler = filler || 'x' where n % 7 = 0")

    async def _read(self, branch: WalkBranch) -> set[int]:
        async with open_connection(self.address(branch)) as db:
            await db.execute(_TABLE)
            if branch.is_changed:
                assert await db.fetchval("select count(*) from pg_roles where rolname = $1", _ROLE) == 1
            return {n for (n,) in await db.fetch("select n from walked")}

    async def _until_done(self, branch: WalkBranch, method: str) -> None:
        for _ in range(_TRIES):
            if await self._do(branch, method):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{method} of {branch.arguments} never succeeded")

    async def _do(self, branch: WalkBranch, method: str) -> bool:
        """Return whether the call completed. It did not if control was killed or reported a transient error."""
        self.calls += 1
        branch.unfinished.append(method)
        cuts = self._power_cuts
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self.control.call(method, branch.arguments)
        except ControlKilled:
            return False
        except EngineRejected as error:
            if not error.transient and self._power_cuts == cuts:
                raise
            return False
        if self._power_cuts != cuts:
            return False
        branch.unfinished = [each for each in branch.unfinished if each != method]
        branch.is_changed = branch.is_changed or method == "change"
        branch.is_read_only = branch.is_read_only and method != "ensure_running"
        if method == "ensure_branch":
            branch.is_created = True
            branch.possible_rows |= branch.parent.possible_rows if branch.parent else set()
        return True

    async def _inject_fault(self, chance: float) -> None:
        delay = self._rng.uniform(0, 0.4)
        await asyncio.sleep(delay)
        if chance < 0.3:
            self.kills["control"] += 1
            if self._disk is not None:
                self._power_cuts += 1
                self._disk.cut_power()
            self.control.kill()
            await self.control.wait()
            if self._disk is not None:
                simulate_power_cut(self._disk, self._settings)
            await self.control.start()
        elif chance < 0.6:
            self._kill_some_process("postmaster" if chance < 0.45 else "session")

    def _kill_some_process(self, kind: str) -> None:
        """Kill a process of any compute, including spares."""
        running = [data for data in sorted(self._folders.volumes.glob("*/data")) if postmaster.is_alive(data)]
        file = PidFile.read(self._rng.choice(running)) if running else None
        if file is None:
            return
        pids = [file.pid] if kind == "postmaster" else processes.list_children(file.pid)
        if pids:
            self.kills[kind] += 1
            with suppress(ProcessLookupError):
                os.kill(self._rng.choice(pids), signal.SIGKILL)


async def _run_all(coroutines: list[Coroutine[Any, Any, None]]) -> None:
    """Wait for all coroutines, then raise the first error."""
    for outcome in await asyncio.gather(*coroutines, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
