"""Give up being root, then tell the life of a branch: run by a test as a process of its own."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from bough.config import Settings
from bough.engine.port import Readiness
from engine.homes import Home

NOBODY = 65534


async def tell(settings: Settings) -> None:
    async with Home.opened(settings) as home:
        able = home.engine.capabilities()
        print(able.driver, able.isolation)
        compute = await home.compute()
        print((await compute.value("show server_version"))[:2])
        await compute.suspend()
        assert await compute.run() is Readiness.READY
        await compute.kill()
        assert await compute.run() is Readiness.READY
        await compute.suspend()
        print("suspended")
        await compute.absent()
        print("absent")
    shutil.rmtree(settings.sockets)


if __name__ == "__main__":
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    asyncio.run(tell(Settings(home=Path(sys.argv[1]), cache=Path(sys.argv[2]), free_space_floor=0)))
