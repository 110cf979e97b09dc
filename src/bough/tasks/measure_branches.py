"""What each compute that runs has used, how large its branch is, and how it is: measured, never guessed."""

from bough.control.activity import Activity
from bough.control.figures import Figures
from bough.domain.endpoint import Endpoint
from bough.engine.port import Engine, Usage
from bough.ids import EndpointId
from bough.operations import measuring
from bough.store.store import Store
from bough.tasks.looks import Looks

AT_ONCE = 4


class MeasureBranches:
    every = 30.0

    def __init__(self, store: Store, engine: Engine, figures: Figures, activity: Activity) -> None:
        self._store = store
        self._engine = engine
        self._figures = figures
        self._activity = activity
        self._sizes: dict[EndpointId, int] = {}
        self._measured: dict[EndpointId, Usage] = {}
        self._looks: Looks[Endpoint] = Looks(AT_ONCE, self._measure)

    async def run(self) -> str:
        async with self._store.read() as rows:
            active = await rows.endpoints.active()
        measured: dict[EndpointId, Usage] = {}
        self._measured = measured
        await self._looks.at(each for each in active if self._looks.may_look(each.id))
        self._figures.note(measured)
        sizes = {endpoint_id: usage.logical_bytes for endpoint_id, usage in measured.items()}
        # It may have grown, or shrunk, without a client: a subscription writes, and so does autovacuum.
        self._activity.unmeasured(each for each in sizes if sizes[each] != self._sizes.get(each, sizes[each]))
        self._sizes = sizes
        return ""

    async def _measure(self, endpoint: Endpoint) -> bool:
        usage = await self._engine.usage(endpoint.id)
        if usage is not None:
            self._measured[endpoint.id] = usage
            await self._note(endpoint, usage)
        return usage is not None

    async def _note(self, endpoint: Endpoint, usage: Usage) -> None:
        async with self._store.read() as rows:
            if not await measuring.is_news(rows, endpoint, usage):
                return
        async with self._store.transaction(lasting=False) as rows:
            await measuring.note(rows, endpoint, usage)
