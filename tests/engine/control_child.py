"""A control process that has only an engine and executes method calls from its standard input until it is killed.

An input line contains a number, a method and its arguments; an output line contains the number and the result. Calls
overlap, as they do in a real control process.
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
    """The ids of a branch and its endpoint. A branch without a parent is empty."""

    project: str
    volume: str
    endpoint: str
    parent: str | None = None
    warm: bool = False  # whether a spare compute matches
    role: str = ""  # the role that a change creates
    lsn: str | None = None  # the point in the parent's history; None: its head

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
            source_volume_id=VolumeId(self.parent) if self.parent else None,
            point=Point(lsn=self.lsn),
            settings=spec.settings if self.warm else None,
        )


class EngineCalls:
    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._install = engine.capabilities().installs[17]

    async def ensure_branch(self, arguments: CallArguments) -> None:
        await self._engine.ensure_branch(arguments.branch(self._install))

    async def ensure_running(self, arguments: CallArguments) -> str:
        return await self._engine.ensure_running(arguments.compute(self._install))

    async def ensure_still(self, arguments: CallArguments) -> str:
        return await self._engine.ensure_running(replace(arguments.compute(self._install), is_read_only=True))

    async def ensure_suspended(self, arguments: CallArguments) -> None:
        await self._engine.ensure_suspended(EndpointId(arguments.endpoint))

    async def ensure_absent(self, arguments: CallArguments) -> None:
        await self._engine.ensure_absent(ProjectId(arguments.project), VolumeId(arguments.volume))

    async def keep_history(self, arguments: CallArguments) -> None:
        """Keep a few seconds, so that older volumes get a base."""
        await self._engine.apply_retention(VolumeId(arguments.volume), clock.now() - timedelta(seconds=6))

    async def change(self, arguments: CallArguments) -> None:
        await self._engine.apply_change(
            arguments.branch(self._install), CreateRole(name=arguments.role, verifier=VERIFIER)
        )

    async def contents(self, arguments: CallArguments) -> dict[str, list[str]] | None:
        contents = await self._engine.read_compute_contents(EndpointId(arguments.endpoint))
        if contents is None:
            return None
        return {
            "roles": [role.name for role in contents.roles],
            "databases": [each.name for each in contents.databases],
        }

    async def usage(self, arguments: CallArguments) -> int | None:
        usage = await self._engine.measure_usage(EndpointId(arguments.endpoint))
        return usage.logical_bytes if usage else None

    async def observe(self, _arguments: CallArguments) -> dict[str, list[str]]:
        observation = await self._engine.observe()
        return {
            "running": sorted(observation.running_endpoints),
            "volumes": sorted(observation.volumes),
            "spare": sorted(observation.spare_endpoints),
        }


def write_line(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


async def handle_call(calls: EngineCalls, number: int, method: str, arguments: dict[str, Any]) -> None:
    try:
        value = await getattr(calls, method)(CallArguments(**arguments))
    except EngineError as error:
        write_line(number=number, error=error.public_message, transient=error.transient)
    else:
        write_line(number=number, value=value)


async def serve(settings: Settings) -> None:
    log.configure("warning")  # standard output is for replies
    engine = LocalEngine(settings, spare_cu=SPARE_CU)
    await engine.prepare()
    write_line(number=0)
    calls, pending = EngineCalls(engine), set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.create_task(handle_call(calls, *json.loads(line)))
        pending.add(task)
        task.add_done_callback(pending.discard)
    await asyncio.gather(*pending)
    await engine.close()


if __name__ == "__main__":
    asyncio.run(serve(Settings.model_validate_json(sys.argv[1])))
