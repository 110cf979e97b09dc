"""Rule 8: a client runs random statements that change session state, directly and in hidden code.

Then another client of the same role uses the same server connection and must see the state of a new session in every
view that Postgres has. One database needs only a reset; the other has extensions that keep connections of their own.
"""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from security import shared_server_connection
from security.shared_server_connection import (
    RESETTABLE_EXTENSIONS,
    SEED,
    STATEFUL_EXTENSIONS,
    SessionState,
    connect_tenant,
    tenant_role,
)
from support.pooler import Pooler
from support.postgres import PostgresServer
from support.protocol_client import ConnectionEnded, ProtocolClient
from support.protocol_messages import SYNC, bind_and_execute, extended_query, parse, query

STATEMENT = f"select 'of both', '{'long' * 30}'"
STATEFUL_STATEMENTS = [
    "set work_mem = '9MB'", "set app.tenant = 'secret'", "select set_config('app.tenant', 'secret', false)",
    "set search_path = pg_catalog", "set role {role}_worker", "set session authorization {role}",
    "set timezone = 'WET'",
    "set client_encoding = 'LATIN1'", "set default_transaction_isolation = 'serializable'",
    "set application_name = 'x'",
    "set session characteristics as transaction read only", "set statement_timeout = '1h'", "set xmloption = document",
    "set local work_mem = '7MB'", "set constraints all deferred", "reset all", "discard all", "deallocate all",
    f"select setseed({SEED})", f"set seed to {SEED}", "select set_limit(0.75)", "load 'auto_explain'",
    "prepare kept as select 'secret'", "deallocate kept", "create temp table kept (id integer)",
    "create temp view kept_view as select 1", "create temp sequence kept_numbers", "select nextval('numbers')",
    "declare kept cursor with hold for select 'secret'", "declare kept cursor for select 1", "listen news",
    "notify news, 'secret'", "select pg_advisory_lock(7)", "select pg_try_advisory_lock_shared(8)",
    "select pg_advisory_xact_lock(9)", "select lo_creat(-1)", "select pg_export_snapshot()", "select 1/0", "selec",
    "select dblink_connect_u('named', 'host={host} dbname={database} user=store')",
    "select dblink_connect_u('host={host} dbname={database} user=store')", "select count(*) from far_words",
]  # fmt: skip
EXECUTIONS: dict[str, Callable[[str], bytes]] = {
    "simple": query,
    "extended": lambda sql: extended_query(sql) + SYNC,
    "prepared": lambda sql: parse("mine", sql) + bind_and_execute("mine") + SYNC + query("deallocate mine"),
    "several": lambda sql: query(f"select 1; {sql}; select 2"),
    "do": lambda sql: query(f"do $do$ begin execute $sql${sql}$sql$; end $do$"),
    "function": lambda sql: query(f"select hidden($sql${sql}$sql$)"),
    "procedure": lambda sql: query(f"call hidden_too($sql${sql}$sql$)"),
    "trigger": lambda sql: extended_query(f"insert into words values ($sql${sql}$sql$)") + SYNC,
    "failing": lambda sql: extended_query(sql) + extended_query("select 1/0") + SYNC,
    "failing function": lambda sql: query(f"select hidden($sql${sql}$sql$), 1/(random() * 0)"),
}
CONTEXTS: dict[str, tuple[bytes, bytes]] = {
    "alone": (b"", b""),
    "transaction": (query("begin"), query("commit")),
    "rollback": (query("begin"), query("rollback")),
    "error": (query("begin"), query("select 1/0") + query("commit")),
    "savepoint": (query("begin") + query("savepoint a"), query("rollback to a") + query("commit")),
    "pipelined": (extended_query("select 1") + SYNC, extended_query("select 2") + SYNC),
}
ACTIONS = st.lists(
    st.tuples(st.sampled_from(STATEFUL_STATEMENTS), st.sampled_from(list(EXECUTIONS)), st.sampled_from(list(CONTEXTS))),
    min_size=1,
    max_size=6,
)


class Fuzz:
    def __init__(self, pooler: Pooler, new_state: SessionState, predicted: set[str | None]) -> None:
        self.pooler = pooler
        self.new_state = new_state
        self.predicted = predicted
        self.placeholders = {"role": tenant_role(pooler), "database": pooler.database, "host": str(pooler.folder)}

    async def run(self, actions: list[tuple[str, str, str]], *, shares: bool, vanishes: bool) -> None:
        first, second = await connect_tenant(self.pooler), await connect_tenant(self.pooler)
        if shares:  # a statement, so that the gateway keeps protocol statements for the second client
            for client in (second, first):
                await client.request(parse("s", STATEMENT), bind_and_execute("s"), SYNC)
        for sql, execution, context in actions:
            before, after = CONTEXTS[context]
            await self._run_action(first, before + EXECUTIONS[execution](sql.format(**self.placeholders)) + after)
        if vanishes:
            first.reset_connection()
        assert await second.fetch_value("select random()") not in self.predicted
        state = await shared_server_connection.read_session_state(second)
        state["statements"] = [row for row in _rows(state["statements"]) if row[1] != STATEMENT]
        assert state == self.new_state
        for client in (second,) if vanishes else (first, second):
            await client.terminate()

    async def _run_action(self, client: ProtocolClient, data: bytes) -> None:
        try:
            await client.request_all(data)
        except ConnectionEnded as error:  # the gateway closed it
            raise AssertionError(error) from error


def _rows(value: object) -> list[tuple[str | None, ...]]:
    assert isinstance(value, list)
    return value


@pytest.mark.parametrize(
    "extensions", [RESETTABLE_EXTENSIONS, (*RESETTABLE_EXTENSIONS, *STATEFUL_EXTENSIONS)], ids=["cleaned", "closed"]
)
def test_a_session_that_changed_hands_is_like_a_new_one(
    postgres_server: PostgresServer, extensions: tuple[str, ...], is_long_run: bool
) -> None:
    with asyncio.Runner() as runner:
        pooler_context = shared_server_connection.open_tenant_pooler(postgres_server, *extensions)
        pooler = runner.run(pooler_context.__aenter__())
        fuzz = Fuzz(
            pooler,
            runner.run(shared_server_connection.read_new_session_state(pooler)),
            runner.run(shared_server_connection.predict_random_values(pooler)),
        )

        @settings(
            max_examples=500 if is_long_run else 20,
            phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(actions=ACTIONS, shares=st.booleans(), vanishes=st.booleans())
        def run_examples(actions: list[tuple[str, str, str]], shares: bool, vanishes: bool) -> None:
            runner.run(fuzz.run(actions, shares=shares, vanishes=vanishes))

        try:
            run_examples()
        finally:
            runner.run(pooler_context.__aexit__(None, None, None))
