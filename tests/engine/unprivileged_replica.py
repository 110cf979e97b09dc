"""Drop root, then report the life cycle of a read replica. A test runs this module as a process."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from bough.config import Settings
from engine.unprivileged_user import NOBODY
from support.engine_home import EngineHome
from support.replicas import insert_numbers, list_slots, start_replica, wait_for_numbers


async def report(settings: Settings) -> None:
    async with EngineHome.open(settings) as home:
        primary = await home.create_compute()
        await insert_numbers(primary, 1)
        replica = await start_replica(primary)
        await wait_for_numbers(replica, 1)
        print("made")
        await insert_numbers(primary, 2)
        await wait_for_numbers(replica, 1, 2)
        print("followed")
        await replica.suspend()
        await insert_numbers(primary, 3)
        await primary.suspend()
        await replica.start()
        await wait_for_numbers(replica, 1, 2, 3)
        print("woken")
        await primary.start()
        await replica.suspend()
        await replica.delete()
        assert await list_slots(primary) == set()
        print("gone")
    shutil.rmtree(settings.sockets)


if __name__ == "__main__":
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    asyncio.run(report(Settings(home=Path(sys.argv[1]), cache=Path(sys.argv[2]), free_space_floor=0)))
