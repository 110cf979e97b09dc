"""Give up being root, then tell the life of a read replica: run by a test as a process of its own."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from bough.config import Settings
from engine.followers import replica_of, shows, slots, write
from engine.homes import Home
from engine.ordinary_user import NOBODY


async def tell(settings: Settings) -> None:
    async with Home.opened(settings) as home:
        primary = await home.compute()
        await write(primary, 1)
        replica = await replica_of(primary)
        await shows(replica, 1)
        print("made")
        await write(primary, 2)
        await shows(replica, 1, 2)
        print("followed")
        await replica.suspend()
        await write(primary, 3)
        await primary.suspend()
        await replica.run()
        await shows(replica, 1, 2, 3)
        print("woken")
        await primary.run()
        await replica.suspend()
        await replica.absent()
        assert await slots(primary) == set()
        print("gone")
    shutil.rmtree(settings.sockets)


if __name__ == "__main__":
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    asyncio.run(tell(Settings(home=Path(sys.argv[1]), cache=Path(sys.argv[2]), free_space_floor=0)))
