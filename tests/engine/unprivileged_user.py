"""Drop root, then report the life cycle of a branch. A test runs this module as a process."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from bough.config import Settings
from bough.engine.port import Readiness
from support.engine_home import EngineHome

NOBODY = 65534


async def report(settings: Settings) -> None:
    async with EngineHome.open(settings) as home:
        capabilities = home.engine.capabilities()
        print(capabilities.storage_driver, capabilities.has_isolation)
        compute = await home.create_compute()
        print((await compute.fetch_value("show server_version"))[:2])
        await compute.suspend()
        assert await compute.start() is Readiness.READY
        await compute.kill()
        assert await compute.start() is Readiness.READY
        await compute.suspend()
        print("suspended")
        await compute.delete()
        print("absent")
    shutil.rmtree(settings.sockets)


if __name__ == "__main__":
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    asyncio.run(report(Settings(home=Path(sys.argv[1]), cache=Path(sys.argv[2]), free_space_floor=0)))
