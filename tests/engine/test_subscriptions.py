"""A branch whose parent has subscriptions: it does not subscribe, does not take over slots, and is independent."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bough.domain.catalog_change import CreateDatabase, DisableSubscriptions, DropDatabase
from bough.engine.local.folders import SOCKET_NAME
from bough.engine.port import EngineError, Origin, Readiness
from bough.engine.spec import build_compute_settings
from bough.ids import EndpointId, VolumeId
from bough.postgres import ADMIN_ROLE
from support.engine_home import DATABASE, ROLE, Compute, EngineHome, make_branch_spec

LOGICAL = build_compute_settings(0.25, logical_replication=True)


class Relay:
    """A TCP relay to the socket of a compute, which other computes cannot use. It counts connections."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.came = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        address = await self._compute.get_address()
        assert address is not None
        there, back = await asyncio.open_unix_connection(Path(address.host) / SOCKET_NAME)
        self._tasks.add(task := asyncio.ensure_future(relay_both(_copy(reader, back), _copy(there, writer))))
        task.add_done_callback(self._tasks.discard)

    @property
    def words(self) -> str:
        """The connection string for `create subscription`."""
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


async def relay_both(one: Any, other: Any) -> None:
    await asyncio.wait([asyncio.ensure_future(one), asyncio.ensure_future(other)])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while some := await reader.read(65536):
            writer.write(some)
            await writer.drain()
    writer.close()


async def wait_until(compute: Compute, question: str, expected: object) -> None:
    async with asyncio.timeout(30):
        while await compute.fetch_value(question) != expected:  # noqa: ASYNC110  only Postgres knows
            await asyncio.sleep(0.05)


@pytest.fixture
async def publisher(home: EngineHome) -> Compute:
    compute = await home.create_compute(settings=LOGICAL)
    await compute.fetch_value("create table news (n int primary key)")
    await compute.fetch_value("create publication headlines for table news")
    return compute


@pytest.fixture
async def relay(publisher: Compute) -> AsyncIterator[Relay]:
    async with Relay.to(publisher) as made:
        yield made


@pytest.fixture
async def subscriber(home: EngineHome, publisher: Compute, relay: Relay) -> AsyncIterator[Compute]:
    compute = await home.create_compute(settings=LOGICAL)
    await compute.fetch_value("create table news (n int primary key)")
    await publisher.fetch_value("insert into news values (1)")
    await compute.fetch_value(
        f"create subscription reader connection '{relay.words}' publication headlines", ADMIN_ROLE
    )
    await wait_until(compute, "select count(*) from news", 1)
    await wait_until(compute, "select string_agg(srsubstate, '') from pg_subscription_rel", "r")
    yield compute
    await compute.start()
    await compute.fetch_value("alter subscription reader disable", ADMIN_ROLE)


async def create_child(home: EngineHome, parent: Compute) -> tuple[Compute, Origin]:
    spec = replace(parent.spec, endpoint_id=EndpointId.new(), volume_id=VolumeId.new())
    child = Compute(home, spec)
    home.computes.append(child)
    branch_spec = replace(make_branch_spec(spec), source_volume_id=parent.spec.volume_id)
    return child, await home.engine.ensure_branch(branch_spec)


async def unsubscribe(child: Compute) -> None:
    await child.home.engine.apply_change(make_branch_spec(child.spec), DisableSubscriptions())


@pytest.mark.parametrize("sleeps", [False, True], ids=["running parent", "sleeping parent"])
async def test_a_child_follows_nobody_and_leaves_the_publisher_alone(
    home: EngineHome, publisher: Compute, subscriber: Compute, relay: Relay, sleeps: bool
) -> None:
    if sleeps:
        await subscriber.suspend()
    child, origin = await create_child(home, subscriber)
    assert origin.has_subscriptions
    if sleeps:
        assert await subscriber.start() is Readiness.READY
    await wait_until(publisher, "select count(*) from pg_stat_replication", 1)
    came = relay.came
    await unsubscribe(child)
    await unsubscribe(child)
    assert await child.start() is Readiness.READY
    await publisher.fetch_value("insert into news values (2)")
    await wait_until(subscriber, "select count(*) from news", 2)
    assert await child.fetch_value("select count(*) from news") == 1
    follows = "select row(subenabled, subslotname)::text from pg_subscription"
    assert await child.fetch_value(follows, ADMIN_ROLE) == "(f,)"
    assert await subscriber.fetch_value(follows, ADMIN_ROLE) == "(t,reader)"

    await child.fetch_value("drop subscription reader", ADMIN_ROLE)
    assert relay.came == came, "the child never connected"
    await publisher.fetch_value("insert into news values (3)")
    await wait_until(subscriber, "select count(*) from news", 3)
    assert (
        await publisher.fetch_value("select string_agg(slot_name, ' ') from pg_replication_slots where active")
        == "reader"
    )


async def test_a_copy_that_the_parent_is_at_is_not_the_childs(
    home: EngineHome, publisher: Compute, subscriber: Compute
) -> None:
    """The child would know the name of its slot at the publisher."""
    await publisher.fetch_value("create table more (n int primary key)")
    await publisher.fetch_value("insert into more values (1)")
    await publisher.fetch_value("alter publication headlines add table more")
    await subscriber.fetch_value("create table more (n int primary key)")
    await subscriber.fetch_value("insert into more values (1)")  # so the copy fails repeatedly
    await subscriber.fetch_value("alter subscription reader refresh publication", ADMIN_ROLE)
    copies = "select count(*) from pg_replication_slots where slot_name like 'pg\\_%\\_sync\\_%'"
    await wait_until(publisher, copies, 1)
    await wait_until(subscriber, "select string_agg(srsubstate, '' order by srsubstate) from pg_subscription_rel", "dr")
    await subscriber.fetch_value("alter subscription reader disable", ADMIN_ROLE)
    await wait_until(publisher, "select count(*) from pg_stat_replication", 0)
    assert await publisher.fetch_value(copies) == 1
    child, origin = await create_child(home, subscriber)
    assert origin.has_subscriptions
    await unsubscribe(child)
    assert await child.start() is Readiness.READY
    await child.fetch_value("drop subscription reader", ADMIN_ROLE)
    assert await publisher.fetch_value(copies) == 1
    assert await publisher.fetch_value("select count(*) from pg_replication_slots where slot_name = 'reader'") == 1


async def test_a_database_that_lets_nobody_in_follows_nobody_either(home: EngineHome, subscriber: Compute) -> None:
    await subscriber.fetch_value(f"alter database {DATABASE} allow_connections false", ADMIN_ROLE, "postgres")
    child, _ = await create_child(home, subscriber)
    await subscriber.fetch_value(f"alter database {DATABASE} allow_connections true", ADMIN_ROLE, "postgres")
    await unsubscribe(child)
    assert await child.start() is Readiness.READY
    assert await child.fetch_value("select subenabled from pg_subscription", ADMIN_ROLE, "postgres") is False


async def test_a_sleeping_parent_tells_by_its_files_whether_it_subscribes(
    home: EngineHome, subscriber: Compute
) -> None:
    await subscriber.fetch_value("vacuum full pg_subscription", ADMIN_ROLE)
    await subscriber.suspend()
    _, origin = await create_child(home, subscriber)
    assert origin.has_subscriptions
    _, origin = await create_child(home, (await create_child(home, subscriber))[0])
    assert origin.has_subscriptions, "no server has opened its parent, either"

    child, _ = await create_child(home, subscriber)
    await unsubscribe(child)
    await child.start()
    await child.fetch_value("drop subscription reader", ADMIN_ROLE)
    _, origin = await create_child(home, child)
    assert not origin.has_subscriptions, "it runs and can be queried"
    await child.fetch_value("vacuum full pg_subscription", ADMIN_ROLE)
    await child.suspend()
    _, origin = await create_child(home, child)
    assert not origin.has_subscriptions


async def test_a_database_that_subscribes_is_not_dropped(home: EngineHome, relay: Relay, subscriber: Compute) -> None:
    with pytest.raises(EngineError, match=f"{DATABASE} has the subscription reader") as refused:
        await home.engine.apply_change(make_branch_spec(subscriber.spec), DropDatabase(name=DATABASE))
    assert not refused.value.transient
    assert await subscriber.fetch_value("select 1") == 1
    assert relay.came > 0


async def test_a_database_that_others_follow_goes(home: EngineHome, publisher: Compute, subscriber: Compute) -> None:
    """Its replication clients are disconnected, and its slots are dropped."""
    await wait_until(publisher, "select count(*) from pg_stat_replication", 1)
    await home.engine.apply_change(make_branch_spec(publisher.spec), CreateDatabase(name="other", owner=ROLE))
    async with asyncio.timeout(30):
        while True:
            try:
                await home.engine.apply_change(make_branch_spec(publisher.spec), DropDatabase(name=DATABASE))
                break
            except EngineError as error:  # the subscriber reconnects immediately
                assert error.transient
    slots = "select count(*) from pg_replication_slots"
    assert await publisher.fetch_value(slots, ROLE, "other") == 0
    assert await subscriber.fetch_value("select count(*) from news") == 1
