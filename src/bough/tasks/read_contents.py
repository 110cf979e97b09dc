"""What was changed in roles and databases with SQL is read from the computes that were in use, a moment later.

One that was not seen running before is read too: it may have crashed before it could be read.
"""

import asyncio

from bough import clock, log
from bough.control.activity import Activity
from bough.domain.endpoint import Endpoint
from bough.domain.operation import OperationAction
from bough.engine.port import Engine, EngineError
from bough.errors import Busy
from bough.ids import EndpointId
from bough.operations import contents
from bough.operations.action import Wish
from bough.operations.contents import Look
from bough.operations.queue import Queue
from bough.postgres.hba import NAMES_EVERY_ROLE_BEFORE
from bough.store.store import Store
from bough.tasks.fairness import in_turn
from bough.tasks.patience import Patience

AT_ONCE = 4
MOST = 50  # in one go: each is a session of its own

logger = log.get(room="tasks")


class ReadContents:
    every = 2.0

    def __init__(self, store: Store, engine: Engine, queue: Queue, activity: Activity) -> None:
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity
        self._known: frozenset[EndpointId] = frozenset()
        self._read: dict[EndpointId, float] = {}
        self._patience = Patience()

    async def run(self) -> str:
        async with self._store.read() as rows:
            active = await rows.endpoints.active_projects()
        unread = (self._activity.take_unread() | (active.keys() - self._known)) & active.keys()
        due = sorted(filter(self._patience.has, unread), key=self._read_at)
        due = in_turn(due, active.__getitem__)[:MOST]
        self._known = frozenset(active)
        self._activity.unread(unread - set(due))
        gate = asyncio.Semaphore(AT_ONCE)

        async def read(endpoint_id: EndpointId) -> bool:
            async with gate:
                return await self._read_one(endpoint_id)

        changed = sum(await asyncio.gather(*map(read, due)))
        self._read = {endpoint_id: at for endpoint_id, at in self._read.items() if endpoint_id in active}
        return f"roles or databases of {changed} endpoints changed" if changed else ""

    def _read_at(self, endpoint_id: EndpointId) -> float:
        """When it was read last: those that wait longest come first."""
        return self._read.get(endpoint_id, 0.0)

    async def _read_one(self, endpoint_id: EndpointId) -> bool:
        self._read[endpoint_id] = clock.monotonic()
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.living(endpoint_id)
        if endpoint is None:
            return False
        try:
            seen = await contents.look(self._store, self._engine, endpoint)
        except EngineError as error:
            logger.warning("contents_not_read", endpoint_id=endpoint_id, reason=error.public)
            self._patience.lose(endpoint_id)
            seen = None
        if seen is None:
            self._activity.unread([endpoint_id])  # until it can be asked, or sleeps
            return False
        if not seen.differs:
            return False
        async with self._store.transaction() as rows:
            is_written = await contents.follow(rows, seen)
            replicas = [each for each in await rows.endpoints.of_branch(endpoint.branch_id) if each.is_running_replica]
        if not is_written:
            self._activity.unread([endpoint_id])
            return False
        for each in (endpoint, *replicas):
            self._activity.changed(each.id)
            await self._let_in(each, seen)
        return True

    async def _let_in(self, endpoint: Endpoint, seen: Look) -> None:
        """Where the server's files name every role, new ones cannot enter before they are written anew."""
        async with self._store.read() as rows:
            project = await rows.projects.get(endpoint.project_id)
        if project is None or project.pg_version >= NAMES_EVERY_ROLE_BEFORE or not seen.role_names_differ:
            return
        wish = Wish(OperationAction.APPLY_CONFIG, endpoint.project_id, endpoint.branch_id, endpoint.id)
        try:
            async with self._queue.turn(wish.touch, patient=False) as rows:
                await self._queue.enqueue(rows, [wish], request_id="read-contents")
        except Busy:
            return  # whatever is under way writes the files, or the next start does
