"""Checks at the end of a random walk: every branch has its rows and is intact, and after deletion nothing is left."""

from bough.config import Settings
from bough.engine.local.engine import LocalEngine
from support.data_checks import find_corruption
from support.engine_walk import EngineWalk
from support.home_consistency import HomeConsistency


async def check_walk(walk: EngineWalk, settings: Settings, machine: HomeConsistency) -> str:
    """Return the problems, one per line."""
    found: list[str] = []
    for branch in walk.branches:
        found += filter(None, [branch.check_rows(await walk.read_rows(branch))])
        found += [f"{branch.arguments.volume}: {what}" for what in await find_corruption(walk.address(branch))]
    await walk.control.stop()
    found += machine.find_inconsistencies()

    await walk.control.start()
    for branch in reversed(tuple(walk.branches)):  # the history of a child depends on its parent's
        await walk.drop_branch(branch)
    await walk.control.stop()
    await _remove_warm_pool(settings)
    return "\n".join([*found, *machine.find_leftovers()])


async def _remove_warm_pool(settings: Settings) -> None:
    """An engine without a pool removes the spares of an earlier one."""
    engine = LocalEngine(settings.model_copy(update={"warm_pool": 0}))
    await engine.prepare()
    await engine.close()
