"""The size of each branch whose compute runs, and how that compute is: measured, never guessed."""

from bough import log
from bough.control.figures import Figures
from bough.domain.endpoint import Endpoint
from bough.engine.port import Engine, EngineError, Usage
from bough.ids import EndpointId
from bough.store.store import Store

logger = log.get(room="tasks")


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
            usage = await self._measure(endpoint)
            if usage is not None:
                measured[endpoint.id] = usage
        self._figures.note(measured)
        return ""

    async def _measure(self, endpoint: Endpoint) -> Usage | None:
        """One that cannot be asked does not keep the others from being measured."""
        try:
            usage = await self._engine.usage(endpoint.id)
        except EngineError as error:
            logger.warning("compute_not_measured", endpoint_id=endpoint.id, reason=error.public)
            return None
        if usage is not None:
            await self._note_size(endpoint, usage.logical_bytes)
        return usage

    async def _note_size(self, endpoint: Endpoint, size: int) -> None:
        async with self._store.read() as rows:
            branch = await rows.branches.get(endpoint.project_id, endpoint.branch_id)
        if branch is None or branch.logical_size == size:
            return
        async with self._store.transaction() as rows:
            await rows.branches.set_size(endpoint.branch_id, size)
