"""Give up being root, run out of processes, and tell what becomes of a compute: run by a test on its own.

The kernel counts the threads of a user, so it is a user who has no others on the machine.
"""

import asyncio
import json
import os
import pwd
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bough.config import Settings
from bough.engine.local.computes import computes
from bough.engine.port import EngineError
from support.engine_home import Compute, EngineHome

_HARD_LIMIT = resource.getrlimit(resource.RLIMIT_NPROC)[1]


def find_idle_user() -> pwd.struct_passwd:
    """A user of the machine under whom nothing runs."""
    busy = {uid for _, uid in _processes()}
    return next(user for user in pwd.getpwall() if 0 < user.pw_uid < 100 and user.pw_uid not in busy)


def _processes() -> Iterator[tuple[int, int]]:
    """Tasks and user of each that lives while we look."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                yield len(list((entry / "task").iterdir())), entry.stat().st_uid


@contextmanager
def limit_processes(more: int) -> Iterator[None]:
    """No more than so many threads and processes can be started."""
    count = sum(tasks for tasks, uid in _processes() if uid == os.getuid())
    resource.setrlimit(resource.RLIMIT_NPROC, (count + more, _HARD_LIMIT))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (_HARD_LIMIT, _HARD_LIMIT))


async def report_start(compute: Compute, more: int) -> None:
    with limit_processes(more):
        try:
            await compute.start()
        except EngineError as error:
            left = [*(compute.home.settings.home / "run").iterdir(), *compute.home.settings.sockets.iterdir()]
            print(json.dumps([error.public_message, error.transient, [path.name for path in left]]))
    await compute.suspend()


async def report(settings: Settings) -> None:
    computes.READY_TIMEOUT = 1.0
    async with EngineHome.open(settings) as home:
        compute = await home.create_branch()
        for more in range(3):  # from no process at all to the server without what it needs beside it
            await report_start(compute, more)
        print(json.dumps(await compute.start()))
    shutil.rmtree(settings.sockets)


if __name__ == "__main__":
    user = find_idle_user()
    os.chown(sys.argv[1], user.pw_uid, user.pw_gid)
    os.setgroups([])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    asyncio.run(report(Settings(home=Path(sys.argv[1]), cache=Path(sys.argv[2]), free_space_floor=0)))
