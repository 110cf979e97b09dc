"""Drop root, exhaust the processes of the user, and report how a compute behaves. A test runs this module.

The kernel counts the threads of a user, so the module uses a user without other processes.
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
    """Return a user of the machine that runs no process."""
    busy = {uid for _, uid in _processes()}
    return next(user for user in pwd.getpwall() if 0 < user.pw_uid < 100 and user.pw_uid not in busy)


def _processes() -> Iterator[tuple[int, int]]:
    """Return the number of tasks and the user of each live process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                yield len(list((entry / "task").iterdir())), entry.stat().st_uid


@contextmanager
def limit_processes(more: int) -> Iterator[None]:
    """Limit how many threads and processes can be started."""
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
        for more in range(3):  # from no process at all to a server without its auxiliary processes
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
