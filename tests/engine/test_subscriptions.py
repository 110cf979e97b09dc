"""A branch whose parent subscribes somewhere: it follows nobody, takes nobody's place, and its own life is its own."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bough.domain.change import DropDatabase, MakeDatabase, Unsubscribe
from bough.engine.local.folders import SOCKET_NAME
from bough.engine.port import EngineError, Origin, Readiness
from bough.engine.spec import compute_settings
from bough.ids import EndpointId, VolumeId
from bough.postgres import ADMIN
from engine.homes import DATABASE, ROLE, Compute, Home, branch_of

LOGICAL = compute_settings(0.25, logical_replication=True)


class Relay:
    """A way to a compute's socket for other computes, which may not use it themselves; it counts who comes."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.came = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        address = await self._compute.address()
        assert address is not None
        there, back = await asyncio.open_unix_connection(Path(address.host) / SOCKET_NAME)
        self._tasks.add(task := asyncio.ensure_future(_both(_copy(reader, back), _copy(there, writer))))
        task.add_done_callback(self._tasks.discard)

    @property
    def words(self) -> str:
        """For `create subscription`."""
        return f"host=127.0.0.1 port={self.port} user={ROLE} dbname={DATABASE} sslmode=disable"

    @classmethod
    @asynccontextmanager
    async def to(cls, compute: Compute) -> AsyncIterator["Relay"]:
        relay = cls(compute)
        server = await asyncio.start_server(relay.accept, "127.0.0.1", 0, family=socket.AF_INET)
        relay.port = server.sockets[0].getsockname()[1]
        try:
            yield relay
        finally:
            server.close()
            for task in relay._tasks:
                task.cancel()


async def _both(one: Any, other: Any) -> None:
    await asyncio.wait([asyncio.ensure_future(one), asyncio.ensure_future(other)])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while some := await reader.read(65536):
            writer.write(some)
            await writer.drain()
    writer.close()


async def until(compute: Compute, question: str, expected: object) -> None:
    async with asyncio.timeout(30):
        while await compute.value(question) != expected:  # noqa: ASYNC110  only Postgres knows
            await asyncio.sleep(0.05)


@pytest.fixture
async def publisher(home: Home) -> Compute:
    compute = await home.compute(settings=LOGICAL)
    await compute.value("create table news (n int primary key)")
    await compute.value("create publication headlines for table news")
    return compute


@pytest.fixture
async def relay(publisher: Compute) -> AsyncIterator[Relay]:
    async with Relay.to(publisher) as made:
        yield made


@pytest.fixture
async def subscriber(home: Home, publisher: Compute, relay: Relay) -> AsyncIterator[Compute]:
    compute = await home.compute(settings=LOGICAL)
    await compute.value("create table news (n int primary key)")
    await publisher.value("insert into news values (1)")
    await compute.value(f"create subscription reader connection '{relay.words}' publication headlines", ADMIN)
    await until(compute, "select count(*) from news", 1)
    await until(compute, "select string_agg(srsubstate, '') from pg_subscription_rel", "r")
    yield compute
    await compute.run()
    await compute.value("alter subscription reader disable", ADMIN)


async def child_of(home: Home, parent: Compute) -> tuple[Compute, Origin]:
    spec = replace(parent.spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new())
    child = Compute(home, spec)
    home.computes.append(child)
    return child, await home.engine.ensure_branch(replace(branch_of(spec), parent=parent.spec.volume_id))


async def unsubscribe(child: Compute) -> None:
    await child.home.engine.change(branch_of(child.spec), Unsubscribe())


@pytest.mark.parametrize("sleeps", [False, True], ids=["running parent", "sleeping parent"])
async def test_a_child_follows_nobody_and_leaves_the_publisher_alone(
    home: Home, publisher: Compute, subscriber: Compute, relay: Relay, sleeps: bool
) -> None:
    if sleeps:
        await subscriber.suspend()
    child, origin = await child_of(home, subscriber)
    assert origin.subscribes
    if sleeps:
        assert await subscriber.run() is Readiness.READY
    await until(publisher, "select count(*) from pg_stat_replication", 1)
    came = relay.came
    await unsubscribe(child)
    await unsubscribe(child)
    assert await child.run() is Readiness.READY
    await publisher.value("insert into news values (2)")
    await until(subscriber, "select count(*) from news", 2)
    assert await child.value("select count(*) from news") == 1
    follows = "select row(subenabled, subslotname)::text from pg_subscription"
    assert await child.value(follows, ADMIN) == "(f,)"
    assert await subscriber.value(follows, ADMIN) == "(t,reader)"

    await child.value("drop subscription reader", ADMIN)
    assert relay.came == came, "nothing of the child ever called"
    await publisher.value("insert into news values (3)")
    await until(subscriber, "select count(*) from news", 3)
    assert await publisher.value("select string_agg(slot_name, ' ') from pg_replication_slots where active") == "reader"


async def test_a_copy_that_the_parent_is_at_is_not_the_childs(
    home: Home, publisher: Compute, subscriber: Compute
) -> None:
    """Its slot at the publisher has a name that the child would know."""
    await publisher.value("create table more (n int primary key)")
    await publisher.value("insert into more values (1)")
    await publisher.value("alter publication headlines add table more")
    await subscriber.value("create table more (n int primary key)")
    await subscriber.value("insert into more values (1)")  # so the copy fails, again and again
    await subscriber.value("alter subscription reader refresh publication", ADMIN)
    copies = "select count(*) from pg_replication_slots where slot_name like 'pg\\_%\\_sync\\_%'"
    await until(publisher, copies, 1)
    await until(subscriber, "select string_agg(srsubstate, '' order by srsubstate) from pg_subscription_rel", "dr")
    await subscriber.value("alter subscription reader disable", ADMIN)
    await until(publisher, "select count(*) from pg_stat_replication", 0)
    assert await publisher.value(copies) == 1
    child, origin = await child_of(home, subscriber)
    assert origin.subscribes
    await unsubscribe(child)
    assert await child.run() is Readiness.READY
    await child.value("drop subscription reader", ADMIN)
    assert await publisher.value(copies) == 1
    assert await publisher.value("select count(*) from pg_replication_slots where slot_name = 'reader'") == 1


async def test_a_database_that_lets_nobody_in_follows_nobody_either(home: Home, subscriber: Compute) -> None:
    await subscriber.value(f"alter database {DATABASE} allow_connections false", ADMIN, "postgres")
    child, _ = await child_of(home, subscriber)
    await subscriber.value(f"alter database {DATABASE} allow_connections true", ADMIN, "postgres")
    await unsubscribe(child)
    assert await child.run() is Readiness.READY
    assert await child.value("select subenabled from pg_subscription", ADMIN, "postgres") is False


async def test_a_sleeping_parent_tells_by_its_files_whether_it_subscribes(home: Home, subscriber: Compute) -> None:
    await subscriber.value("vacuum full pg_subscription", ADMIN)
    await subscriber.suspend()
    _, origin = await child_of(home, subscriber)
    assert origin.subscribes
    _, origin = await child_of(home, (await child_of(home, subscriber))[0])
    assert origin.subscribes, "nobody has opened its parent, either"

    child, _ = await child_of(home, subscriber)
    await unsubscribe(child)
    await child.run()
    await child.value("drop subscription reader", ADMIN)
    _, origin = await child_of(home, child)
    assert not origin.subscribes, "it runs, and can be asked"
    await child.value("vacuum full pg_subscription", ADMIN)
    await child.suspend()
    _, origin = await child_of(home, child)
    assert not origin.subscribes


async def test_a_database_that_subscribes_is_not_dropped(home: Home, relay: Relay, subscriber: Compute) -> None:
    with pytest.raises(EngineError, match=f"{DATABASE} has the subscription reader") as refused:
        await home.engine.change(branch_of(subscriber.spec), DropDatabase(name=DATABASE))
    assert not refused.value.transient
    assert await subscriber.value("select 1") == 1
    assert relay.came > 0


async def test_a_database_that_others_follow_goes(home: Home, publisher: Compute, subscriber: Compute) -> None:
    """Who replicates from it is cut off, and its slots go with it."""
    await until(publisher, "select count(*) from pg_stat_replication", 1)
    await home.engine.change(branch_of(publisher.spec), MakeDatabase(name="other", owner=ROLE))
    async with asyncio.timeout(30):
        while True:
            try:
                await home.engine.change(branch_of(publisher.spec), DropDatabase(name=DATABASE))
                break
            except EngineError as error:  # the subscriber calls again at once
                assert error.transient
    slots = "select count(*) from pg_replication_slots"
    assert await publisher.value(slots, ROLE, "other") == 0
    assert await subscriber.value("select count(*) from news") == 1
