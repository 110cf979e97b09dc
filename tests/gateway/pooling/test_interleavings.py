"""Random steps of a few clients on fewer server connections; each must get the replies of a session of its own.

Hypothesis generates the steps and shrinks failing examples; impossible steps are skipped. All examples share an event
loop, a gateway and a Postgres. Server connections are closed after each example, so that examples can be repeated.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Iterator
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from gateway.pooling import reference_database
from gateway.pooling.random_steps import (
    BATCHES,
    CHAINS,
    CLIENT_NUMBERS,
    CLIENTS,
    ERRORS,
    HIDDEN_SETTING_QUERY,
    NAMES,
    PIECES,
    RARELY,
    REJECTED_QUERY,
    SETTINGS,
    SHOW_APPLICATION_NAME,
    STATE_QUERY,
    STATEMENT_TEXTS,
    TEMPORARY,
    TRANSACTION_STATEMENTS,
    TRANSACTIONS,
    insert_both_halves,
)
from gateway.pooling.reference_pairs import END_MARKER, ReferencePairs, Step
from support import pooler as poolers
from support.pooler import Pooler
from support.postgres import PostgresServer
from support.protocol_messages import (
    COPY_DONE,
    SYNC,
    bind,
    bind_and_execute,
    close,
    copy_data,
    describe,
    execute,
    extended_query,
    parse,
    query,
)


class Interleavings(RuleBasedStateMachine):
    pooler: ClassVar[Pooler]
    runner: ClassVar[asyncio.Runner]
    server_count: ClassVar[int]
    numbers: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.references = ReferencePairs(self.pooler, self.server_count)
        self.done: set[int] = set()  # numbers whose inserts were confirmed to the client

    def run(self, step: Awaitable[None]) -> None:
        async def done() -> None:
            await step

        self.runner.run(done())

    def is_busy(self, who: int) -> bool:
        return who in self.references.waiting

    def status(self, who: int) -> str:
        return self.references.pairs[who].status if who in self.references.pairs else "I"

    def can_begin(self, who: int) -> bool:
        """Whether it can begin without waiting for others."""
        return not self.is_busy(who) and (
            self.status(who) != "I" or self.references.count_in_transaction < self.server_count
        )

    def has_table(self, who: int) -> bool:
        return who in self.references.pairs and self.references.pairs[who].has_temporary_table

    def do(self, who: int, sql: bytes, references: bytes = b"", **kind: bool) -> None:
        """Skip the step if the client waits for a reply."""
        if not self.is_busy(who):
            self.run(self.references.run_step(who, Step(sql, references, **kind)))

    @rule(who=CLIENT_NUMBERS, sql=st.sampled_from(TRANSACTIONS), is_simple=st.booleans())
    def begins_or_ends(self, who: int, sql: str, is_simple: bool) -> None:
        if not (sql in CHAINS and self.has_table(who)):
            self.do(who, query(sql) if is_simple or ";" in sql else extended_query(sql) + SYNC)

    @rule(who=CLIENT_NUMBERS, way=st.sampled_from(["simple", "extended", "copy", "failing", "two"]))
    def inserts(self, who: int, way: str) -> None:
        number = next(self.numbers)
        sql = f"insert into tokens values ({number})"
        ways = {
            "simple": query(sql),
            "extended": extended_query("insert into tokens values ($1)", str(number)) + SYNC,
            "copy": query("copy tokens from stdin") + copy_data(f"{number}\n".encode()) + COPY_DONE,
            "failing": extended_query(sql) + extended_query("select 1/0") + SYNC,
            "two": extended_query(sql) + extended_query(f"insert into tokens values ({next(self.numbers)})") + SYNC,
        }
        self.do(who, ways[way])

    @rule(who=CLIENT_NUMBERS, sql=st.sampled_from(ERRORS), is_simple=st.booleans())
    def fails(self, who: int, sql: str, is_simple: bool) -> None:
        self.do(who, query(sql) if is_simple else extended_query(sql) + SYNC)

    @rule(who=CLIENT_NUMBERS, name=NAMES, text=st.sampled_from(STATEMENT_TEXTS))
    def prepares(self, who: int, name: str, text: str) -> None:
        """The gateway rejects a duplicate name before parsing, Postgres after it; so one error at a time."""
        may_fail = "from t" in text or self.status(who) == "E"
        self.do(who, (close("S", name) if may_fail else b"") + parse(name, text) + SYNC)

    @rule(who=CLIENT_NUMBERS, name=NAMES, values=st.sampled_from([[], [], ["1"]]))
    def uses(self, who: int, name: str, values: list[str]) -> None:
        self.do(who, bind_and_execute(name, *values) + SYNC)

    @rule(
        who=CLIENT_NUMBERS,
        name=NAMES,
        way=st.sampled_from(["describe", "close", "deallocate", "all", "discard", "portal", "fetch"]),
    )
    def handles(self, who: int, name: str, way: str) -> None:
        ways = {
            "describe": describe("S", name) + SYNC,
            "close": close("S", name) + SYNC,
            "deallocate": query(f"deallocate {name or 's'}"),
            "all": query("deallocate all"),
            "discard": query("discard all"),
            "portal": bind("p", name) + execute("p", 1) + SYNC,
            "fetch": execute("p", 1) + SYNC,
        }
        self.do(who, ways[way])

    @rule(who=CLIENT_NUMBERS, sql=st.sampled_from(SETTINGS), is_simple=st.booleans())
    def sets(self, who: int, sql: str, is_simple: bool) -> None:
        statement = sql.format(worker=f"{self.pooler.database}_{reference_database.WORKER}")
        self.do(who, query(statement) if is_simple else extended_query(statement) + SYNC)

    @rule(who=CLIENT_NUMBERS, way=st.sampled_from(["create", "create", "listen", *TEMPORARY]))
    def creates_transaction_state(self, who: int, way: str) -> None:
        if way == "listen":
            self.do(who, query("listen news"), REJECTED_QUERY, is_rejected=True)
        elif way != "create":
            self.do(who, query(way))
        elif self.status(who) == "I":
            self.do(who, query("create temp table t (id integer)"), REJECTED_QUERY, is_rejected=True)
        else:
            made = "create temp table t (id integer)"
            self.do(who, query(made), query(f"{made} on commit drop"))
            self.references.pairs[who].has_temporary_table = True

    @rule(who=CLIENT_NUMBERS)
    def hides_a_setting(self, who: int) -> None:
        self.do(who, query("select hide()"))
        if who in self.references.pairs:
            self.references.pairs[who].has_hidden_setting = True

    @rule(who=CLIENT_NUMBERS, is_simple=st.booleans())
    def reads_its_state(self, who: int, is_simple: bool) -> None:
        self.do(who, query(STATE_QUERY) if is_simple else extended_query(STATE_QUERY) + SYNC)

    @rule(who=CLIENT_NUMBERS)
    def reads_its_application_name(self, who: int) -> None:
        """In a transaction that has reset it, it may differ."""
        if self.status(who) == "I":
            self.do(who, query(SHOW_APPLICATION_NAME))

    @rule(who=CLIENT_NUMBERS)
    def reads_the_hidden_setting(self, who: int) -> None:
        if who in self.references.pairs and not self.references.pairs[who].has_hidden_setting:
            self.do(who, query(HIDDEN_SETTING_QUERY))

    @rule(who=CLIENT_NUMBERS)
    def counts(self, who: int) -> None:
        self.do(who, query("select count(*), coalesce(sum(id), 0) from tokens"))

    @rule(
        who=CLIENT_NUMBERS,
        statements=st.lists(st.sampled_from(TRANSACTION_STATEMENTS), max_size=5),
        end=st.sampled_from(["commit", "rollback", "leave"]),
    )
    def runs_a_transaction(self, who: int, statements: list[str], end: str) -> None:
        """A whole transaction, if it can begin: few would get that far one step at a time."""
        if not self.can_begin(who):
            return
        self.do(who, query("begin"))
        for work in statements:
            if work == "insert":
                self.inserts(who, "simple")
            elif work == "make":
                self.creates_transaction_state(who, "create")
            else:
                self.do(who, query(work))
        if end == "leave":
            self.run(self.references.disconnect(who))
        else:
            self.do(who, query(end))

    @rule(who=CLIENT_NUMBERS, batch=BATCHES)
    def sends_a_long_batch(self, who: int, batch: list[str]) -> None:
        """Not while others wait: they would be served in the middle, which the references cannot predict."""
        if self.can_begin(who) and not self.references.waiting and not self.has_table(who):
            self.do(who, b"".join(PIECES[chunk] for chunk in batch) + END_MARKER, has_end_marker=True)

    @rule(who=CLIENT_NUMBERS, politely=st.booleans(), is_chosen=RARELY)
    def leaves(self, who: int, politely: bool, is_chosen: bool) -> None:
        if is_chosen and who in self.references.pairs and not self.is_busy(who):
            self.run(self.references.disconnect(who, politely=politely))

    @rule(who=CLIENT_NUMBERS, turns=st.integers(0, 6), is_batch=st.booleans(), is_chosen=RARELY)
    def leaves_in_the_middle(self, who: int, turns: int, is_batch: bool, is_chosen: bool) -> None:
        if is_chosen and who in self.references.pairs and not self.is_busy(who) and self.status(who) == "I":
            self.run(self.references.disconnect(who, insert_both_halves(next(self.numbers), is_batch), turns=turns))

    @rule(is_chosen=RARELY)
    def kills_servers(self, is_chosen: bool) -> None:
        if is_chosen:
            self.run(self.references.kill_server_connections())

    @rule(who=CLIENT_NUMBERS, is_batch=st.booleans(), is_chosen=RARELY)
    def kills_servers_during_a_request(self, who: int, is_batch: bool, is_chosen: bool) -> None:
        """Confirmed inserts must be there, and every insert must be there once."""
        if self.references.count_in_transaction or not is_chosen:
            return
        number = next(self.numbers)

        async def during() -> None:
            if await self.references.kill_server_connections_during(who, insert_both_halves(number, is_batch)):
                self.done.add(number)

        self.run(during())

    @rule(which=st.integers(0, CLIENTS))
    def cancels(self, which: int) -> None:
        if waiting := self.references.waiting:
            self.run(self.references.cancel_wait(waiting[which % len(waiting)]))

    def teardown(self) -> None:
        try:
            self.run(self.references.finish())
            self.run(self._compare_databases())
        finally:
            self.run(self._disconnect_closed_clients())

    async def _compare_databases(self) -> None:
        """Every committed token is there once, and no other; interrupted ones left all or nothing."""
        await self.pooler.kill_server_connections()
        theirs = await reference_database.list_tokens(
            self.pooler, reference_database.reference_database_name(self.pooler)
        )
        assert await reference_database.list_tokens(self.pooler, self.pooler.database) == theirs
        found = await reference_database.list_halves(self.pooler)
        assert self.done <= found.keys()
        assert {tuple(each) for each in found.values()} <= {(1, 2)}, found

    async def _disconnect_closed_clients(self) -> None:
        for pair in self.references.pairs.values():
            pair.client.reset_connection()
            pair.reference.wire.close()
        await reference_database.reset_databases(self.pooler)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("server_count", [1, 2])
def test_each_client_hears_what_it_would_hear_alone(
    postgres_server: PostgresServer, server_count: int, is_long_run: bool
) -> None:
    tier = settings(
        max_examples=400 if is_long_run else 25,
        stateful_step_count=120 if is_long_run else 40,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        deadline=None,
        phases=[Phase.generate, *([Phase.shrink] if is_long_run else [])],  # shrinking an example that hangs takes long
    )
    with asyncio.Runner() as running:
        context = poolers.open_pooler(postgres_server)
        opened = running.run(context.__aenter__())
        try:
            running.run(reference_database.create_databases(opened))
            opened.configure(servers=server_count, servers_per_pool=server_count)
            attributes = {"pooler": opened, "runner": running, "server_count": server_count}
            run_state_machine_as_test(type("Interleavings", (Interleavings,), attributes), settings=tier)
        finally:
            running.run(context.__aexit__(None, None, None))
