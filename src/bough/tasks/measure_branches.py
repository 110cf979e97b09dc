"""What each compute that runs has used, how large its branch is, and how it is: measured, never guessed.

A measure is a session in the compute. One that nobody used and that took next to no processor time has nothing new to
tell, so it is measured rarely; its processor time is known from one look at all processes of the machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bough import clock
from bough.control.activity import Activity
from bough.control.figures import Figures
from bough.domain.endpoint import Endpoint
from bough.engine.port import Engine, Usage
from bough.ids import EndpointId
from bough.operations import measuring
from bough.store.store import Store
from bough.tasks.fairness import in_turn
from bough.tasks.looks import Looks

AT_ONCE = 4
MOST = 200  # in one go: each is a session of its own
RARELY = 1800.0  # seconds from one measure of a compute that does nothing to the next
WORKED = 0.1  # seconds of processor time: a subscription or a worker writes without a client


@dataclass(frozen=True, slots=True)
class _Measured:
    at: float
    cpu_seconds: float


class MeasureBranches:
    every = 30.0

    def __init__(self, store: Store, engine: Engine, figures: Figures, activity: Activity) -> None:
        self._store = store
        self._engine = engine
        self._figures = figures
        self._activity = activity
        self._measured: dict[EndpointId, _Measured] = {}
        self._usages: dict[EndpointId, Usage] = {}
        self._looks: Looks[Endpoint] = Looks(AT_ONCE, self._measure)

    async def run(self) -> str:
        async with self._store.read(slow=True) as rows:
            active = await rows.endpoints.active()
        taken = await self._engine.cpu_seconds()
        self._retain({endpoint.id for endpoint in active})
        due = [each for each in self._due(active, taken) if self._looks.may_look(each.id)]
        for endpoint in due:
            self._measured[endpoint.id] = _Measured(clock.monotonic(), taken.get(endpoint.id, 0.0))
        await self._looks.at(due)
        for endpoint_id in self._usages.keys() & taken.keys():
            usage = self._usages[endpoint_id]
            self._usages[endpoint_id] = replace(usage, cpu_seconds=max(usage.cpu_seconds, taken[endpoint_id]))
        self._figures.note(self._usages)
        return ""

    def _retain(self, active: set[EndpointId]) -> None:
        self._measured = {each: measured for each, measured in self._measured.items() if each in active}
        self._usages = {each: usage for each, usage in self._usages.items() if each in active}

    def _due(self, active: list[Endpoint], taken: Mapping[EndpointId, float]) -> list[Endpoint]:
        """Those that wait longest come first. A read replica that does nothing may lag behind a busy branch."""
        worked = {each.branch_id for each in active if self._has_worked(each.id, taken.get(each.id, 0.0))}
        due = [each for each in active if each.branch_id in worked or self._is_old(each.id)]
        due.sort(key=lambda each: self._measured[each.id].at if each.id in self._measured else 0.0)
        return in_turn(due, lambda each: each.project_id)[:MOST]

    def _has_worked(self, endpoint_id: EndpointId, cpu_seconds: float) -> bool:
        before = self._measured.get(endpoint_id)
        if before is None or self._activity.is_used_since(endpoint_id, before.at):
            return True
        return not 0.0 <= cpu_seconds - before.cpu_seconds < WORKED

    def _is_old(self, endpoint_id: EndpointId) -> bool:
        before = self._measured.get(endpoint_id)
        return before is None or endpoint_id not in self._usages or clock.monotonic() - before.at >= RARELY

    async def _measure(self, endpoint: Endpoint) -> bool:
        before = self._usages.pop(endpoint.id, None)
        usage = await self._engine.usage(endpoint.id)
        if usage is None:
            return False
        self._usages[endpoint.id] = usage
        await self._note(endpoint, usage)
        if before is not None and before.logical_bytes != usage.logical_bytes:
            # It may have grown, or shrunk, without a client: a subscription writes, and so does autovacuum.
            self._activity.unmeasured([endpoint.id])
        return True

    async def _note(self, endpoint: Endpoint, usage: Usage) -> None:
        async with self._store.read() as rows:
            if not await measuring.is_news(rows, endpoint, usage):
                return
        async with self._store.transaction(lasting=False) as rows:
            await measuring.note(rows, endpoint, usage)
