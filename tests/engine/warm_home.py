"""Homes whose engine keeps spare computes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bough.config import Settings
from bough.engine.local.engine import LocalEngine
from bough.engine.spec import BranchSpec, build_default_settings
from bough.ids import EndpointId
from support.engine_home import Compute, EngineHome, make_compute_spec

DEFAULT_SETTINGS = build_default_settings(0.25)


class WarmHome(EngineHome):
    """A home whose engine has a pool of the default configuration."""

    @classmethod
    async def start(cls, settings: Settings, spare_cu: float = 0.25) -> "WarmHome":
        """For a control process that ends and leaves its computes to the next."""
        engine = LocalEngine(settings, spare_cu=spare_cu)
        await engine.prepare()
        return cls(settings, engine)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator["WarmHome"]:
        home = await cls.start(settings)
        try:
            yield home
        finally:
            await home.delete_computes()
            for spare in (await home.engine.observe()).spare_endpoints:
                await home.engine.ensure_suspended(spare)
            await home.engine.close()

    async def wait_for_spares(self, count: int) -> set[EndpointId]:
        """Return the spares that can be assigned, once there are `count`. A running spare may not be ready yet."""
        pool = self.engine._components.warm
        while len(pool._ready) < count:  # noqa: ASYNC110  the pool has a list, not an event
            await asyncio.sleep(0.02)
        return {EndpointId(name) for name in pool._ready}

    def postmaster_pid(self, spare: EndpointId) -> int:
        volumes = self.settings.home / "volumes"
        return int((volumes / spare / "data" / "postmaster.pid").read_text().split()[0])

    async def create_project(self, options: dict[str, str] | None = DEFAULT_SETTINGS, **changes: Any) -> Compute:
        """Create a project as control does: the branch, then its compute."""
        compute = Compute(self, make_compute_spec(self.get_install(), **changes))
        self.computes.append(compute)
        spec = BranchSpec(
            project_id=compute.spec.project_id,
            volume_id=compute.spec.volume_id,
            install=compute.spec.install,
            settings=options,
        )
        await self.engine.ensure_branch(spec)
        return compute

    def adopt(self, compute: Compute) -> Compute:
        """Adopt a compute that an earlier control process created."""
        same = Compute(self, compute.spec)
        self.computes.append(same)
        return same
