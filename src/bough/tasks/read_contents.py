"""What was changed in roles and databases with SQL is read from the computes that were in use, a moment later.

One that was not seen running before is read too: it may have crashed before it could be read.
"""

from dataclasses import dataclass

from bough import clock, log
from bough.control.activity import Activity
from bough.domain.endpoint import Endpoint
from bough.domain.operation import OperationAction
from bough.engine.port import Engine
from bough.errors import Busy
from bough.ids import EndpointId, ProjectId
from bough.operations import contents
from bough.operations.action import Wish
from bough.operations.contents import Look, Plans
from bough.operations.queue import Queue
from bough.postgres.hba import NAMES_EVERY_ROLE_BEFORE
from bough.store.store import Store
from bough.tasks.fairness import in_turn
from bough.tasks.looks import Looks

AT_ONCE = 4
MOST = 50  # in one go: each is a session of its own

logger = log.get(room="tasks")


@dataclass(frozen=True, slots=True)
class _Due:
    id: EndpointId
    project_id: ProjectId


class ReadContents:
    every = 2.0

    def __init__(
        self, store: Store, engine: Engine, queue: Queue, activity: Activity, plans: Plans | None = None
    ) -> None:
        self._store = store
        self._engine = engine
        self._queue = queue
        self._activity = activity
        self._plans = plans
        self._beyond: dict[EndpointId, tuple[int, int]] = {}  # roles and databases beyond the limit, as was told
        self._known: frozenset[EndpointId] = frozenset()
        self._read: dict[EndpointId, float] = {}
        self._looks: Looks[_Due] = Looks(AT_ONCE, self._read_one, lambda each: activity.unread([each.id]))

    async def run(self) -> str:
        changed = await self._looks.while_due(self._due, self.every)
        return f"roles or databases of {changed} endpoints changed" if changed else ""

    async def _due(self) -> list[_Due]:
        async with self._store.read() as rows:
            active = await rows.endpoints.active_projects()
        unread = (self._activity.take_unread() | (active.keys() - self._known)) & active.keys()
        due = sorted(filter(self._looks.may_look, unread), key=self._read_at)
        due = in_turn(due, active.__getitem__)[:MOST]
        self._known = frozenset(active)
        self._activity.unread(unread - set(due))
        self._beyond = {endpoint_id: beyond for endpoint_id, beyond in self._beyond.items() if endpoint_id in active}
        self._read = {endpoint_id: at for endpoint_id, at in self._read.items() if endpoint_id in active}
        return [_Due(endpoint_id, active[endpoint_id]) for endpoint_id in due]

    def _read_at(self, endpoint_id: EndpointId) -> float:
        """When it was read last: those that wait longest come first."""
        return self._read.get(endpoint_id, 0.0)

    async def _read_one(self, due: _Due) -> bool:
        endpoint_id = due.id
        self._read[endpoint_id] = clock.monotonic()
        async with self._store.read() as rows:
            endpoint = await rows.endpoints.living(endpoint_id)
        if endpoint is None:
            return False
        seen = await contents.look(self._store, self._engine, endpoint, self._plans)
        if seen is None:
            self._activity.unread([endpoint_id])  # until it can be asked, or sleeps
            return False
        self._tell_beyond(endpoint_id, seen)
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

    def _tell_beyond(self, endpoint_id: EndpointId, seen: Look) -> None:
        beyond = (seen.now.unlisted_roles, seen.now.unlisted_databases)
        if beyond != self._beyond.get(endpoint_id, (0, 0)):
            logger.warning("contents_beyond_limit", endpoint_id=endpoint_id, roles=beyond[0], databases=beyond[1])
        self._beyond[endpoint_id] = beyond

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
