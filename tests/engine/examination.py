"""The end of a walk: every branch has its rows and is sound, and then nothing is left of any of them."""

from bough.config import Settings
from bough.engine.local.engine import LocalEngine
from engine.consistency import Machine
from engine.soundness import unsound
from engine.walking import Walk


async def findings(walk: Walk, settings: Settings, machine: Machine) -> str:
    """What is wrong, a line each."""
    found: list[str] = []
    for branch in walk.branches:
        found += filter(None, [branch.verdict(await walk.rows(branch))])
        found += [f"{branch.names.volume}: {what}" for what in await unsound(walk.address(branch))]
    await walk.control.end()
    found += machine.disorder()

    await walk.control.start()
    for branch in reversed(tuple(walk.branches)):  # a child's history stands on its parent's
        await walk.drop(branch)
    await walk.control.end()
    await _sweep_the_pool(settings)
    return "\n".join([*found, *machine.leftovers()])


async def _sweep_the_pool(settings: Settings) -> None:
    """A control without a pool takes away what the one before it kept ready."""
    engine = LocalEngine(settings.model_copy(update={"warm_pool": 0}))
    await engine.prepare()
    await engine.close()
