"""Stops computes that outlived the platform, for example after a crash."""

import asyncio

from bough.config import Settings


def has_any(settings: Settings) -> bool:
    """Whether the engine has recorded computes that it started and did not stop."""
    return any((settings.home / "run").glob("*.json"))


def stop_all(settings: Settings) -> int:
    """Stop every compute of this home; the caller holds its lock. Return how many endpoints had a running compute."""
    return asyncio.run(_stop(settings)) if has_any(settings) else 0


async def _stop(settings: Settings) -> int:
    from bough.engine.local.engine import LocalEngine  # noqa: PLC0415 - rarely needed, slow to import

    engine = LocalEngine(settings)
    await engine.stop_temporary()
    observed = await engine.observe()
    await asyncio.gather(
        *(engine.ensure_suspended(endpoint) for endpoint in observed.running_endpoints | observed.spare_endpoints)
    )
    await engine.close()
    return len(observed.running_endpoints)
