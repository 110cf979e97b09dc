"""What each compute that runs has used, how large its branch is, and how it is: measured, never guessed."""

from bough.control.figures import Figures
from bough.domain.endpoint import Endpoint
from bough.engine.port import Engine, Usage
from bough.ids import EndpointId
from bough.operations import measuring
from bough.store.store import Store


class MeasureBranches:
    every = 30.0

    def __init__(self, store: Store, engine: Engine, figures: Figures) -> None:
        self._store = store
        self._engine = engine
        self._figures = figures

    async def run(self) -> str:
        async with self._store.read() as rows:
            active = await rows.endpoints.active()
        measured: dict[EndpointId, Usage] = {}
        for endpoint in active:
            usage = await measuring.measure(self._engine, endpoint)
            if usage is not None:
                measured[endpoint.id] = usage
                await self._note(endpoint, usage)
        self._figures.note(measured)
        return ""

    async def _note(self, endpoint: Endpoint, usage: Usage) -> None:
        async with self._store.read() as rows:
            if not await measuring.is_news(rows, endpoint, usage):
                return
        async with self._store.transaction(lasting=False) as rows:
            await measuring.note(rows, endpoint, usage)
