"""Computes that outlived the platform: after a crash nobody else is there to stop them."""

import asyncio

from bough.config import Settings


def has_any(settings: Settings) -> bool:
    """Whether the engine has noted computes that it started and did not stop."""
    return any((settings.home / "run").glob("*.json"))


def stop_all(settings: Settings) -> int:
    """Stop every compute of this home, whose lock we hold; the number of endpoints whose compute ran."""
    return asyncio.run(_stop(settings)) if has_any(settings) else 0


async def _stop(settings: Settings) -> int:
    from bough.engine.local.engine import LocalEngine  # noqa: PLC0415 - rarely needed, slow to import

    engine = LocalEngine(settings)
    await engine.stop_temporary()
    seen = await engine.observe()
    await asyncio.gather(
        *(engine.ensure_suspended(endpoint) for endpoint in seen.running_endpoints | seen.spare_endpoints)
    )
    await engine.close()
    return len(seen.running_endpoints)
