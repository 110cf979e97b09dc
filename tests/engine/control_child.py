"""A control process of its own that has only an engine: it does what it is told, line by line, until it is killed.

A line in is a number, a verb and what it is given; a line out is the number and how it went. Verbs
overlap, as they do in a control that serves many.
"""

import asyncio
import json
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from bough import clock, log
from bough.config import Settings
from bough.domain.catalog_change import CreateRole
from bough.domain.history import Point
from bough.engine.local.engine import LocalEngine
from bough.engine.port import EngineError
from bough.engine.spec import BranchSpec, ComputeSpec
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from support.engine_home import VERIFIER, make_compute_spec

SPARE_CU = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class CallArguments:
    """The names of a branch and its endpoint; a branch without a parent is an empty one."""

    project: str
    volume: str
    endpoint: str
    parent: str | None = None
    warm: bool = False  # whether a spare compute fits
    role: str = ""  # whom a change makes
    lsn: str | None = None  # the point of its parent's life; None: all of it

    def compute(self, install: str) -> ComputeSpec:
        return make_compute_spec(
            install,
            project_id=ProjectId(self.project),
            branch_id=BranchId("br-" + self.volume),
            endpoint_id=EndpointId(self.endpoint),
            volume_id=VolumeId(self.volume),
        )

    def branch(self, install: str) -> BranchSpec:
        spec = self.compute(install)
        return BranchSpec(
            project_id=spec.project_id,
            volume_id=spec.volume_id,
            install=install,
            parent=VolumeId(self.parent) if self.parent else None,
            point=Point(lsn=self.lsn),
            settings=spec.settings if self.warm else None,
        )


class EngineCalls:
    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._install = engine.capabilities().installs[17]

    async def ensure_branch(self, given: CallArguments) -> None:
        await self._engine.ensure_branch(given.branch(self._install))

    async def ensure_running(self, given: CallArguments) -> str:
        return await self._engine.ensure_running(given.compute(self._install))

    async def ensure_still(self, given: CallArguments) -> str:
        return await self._engine.ensure_running(replace(given.compute(self._install), is_read_only=True))

    async def ensure_suspended(self, given: CallArguments) -> None:
        await self._engine.ensure_suspended(EndpointId(given.endpoint))

    async def ensure_absent(self, given: CallArguments) -> None:
        await self._engine.ensure_absent(ProjectId(given.project), VolumeId(given.volume))

    async def keep_history(self, given: CallArguments) -> None:
        """Of a few seconds: who is older than that gets a base."""
        await self._engine.apply_retention(VolumeId(given.volume), clock.now() - timedelta(seconds=6))

    async def change(self, given: CallArguments) -> None:
        await self._engine.apply_change(given.branch(self._install), CreateRole(name=given.role, verifier=VERIFIER))

    async def contents(self, given: CallArguments) -> dict[str, list[str]] | None:
        told = await self._engine.read_compute_contents(EndpointId(given.endpoint))
        if told is None:
            return None
        return {"roles": [role.name for role in told.roles], "databases": [each.name for each in told.databases]}

    async def usage(self, given: CallArguments) -> int | None:
        usage = await self._engine.measure_usage(EndpointId(given.endpoint))
        return usage.logical_bytes if usage else None

    async def observe(self, _given: CallArguments) -> dict[str, list[str]]:
        seen = await self._engine.observe()
        return {
            "running": sorted(seen.running_endpoints),
            "volumes": sorted(seen.volumes),
            "spare": sorted(seen.spare_endpoints),
        }


def write_line(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


async def handle_call(verbs: EngineCalls, number: int, verb: str, given: dict[str, Any]) -> None:
    try:
        value = await getattr(verbs, verb)(CallArguments(**given))
    except EngineError as error:
        write_line(number=number, error=error.public_message, transient=error.transient)
    else:
        write_line(number=number, value=value)


async def serve(settings: Settings) -> None:
    log.configure("warning")  # to standard error: the other one is for answers
    engine = LocalEngine(settings, spare_cu=SPARE_CU)
    await engine.prepare()
    write_line(number=0)
    verbs, under_way = EngineCalls(engine), set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.create_task(handle_call(verbs, *json.loads(line)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(serve(Settings.model_validate_json(sys.argv[1])))
