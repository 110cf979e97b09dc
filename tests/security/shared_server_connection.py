"""Clients of one role that share the only server connection of a pool, and queries for the state of a session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support.control_plane import make_access
from support.gateway import PASSWORD
from support.pooler import Pooler, open_pooler
from support.postgres import PostgresServer
from support.protocol_client import ProtocolClient
from support.scram_client import make_verifier

# DISCARD ALL resets the state of the former, and not that of the latter.
RESETTABLE_EXTENSIONS, STATEFUL_EXTENSIONS = ("cube", "pg_trgm"), ("dblink", "postgres_fdw")
SEED = "0.25"
_SETUP = """
    create role {role}_worker;
    create role {role} login;
    grant {role}_worker to {role};
    grant create on database {database} to {role};
    grant all on schema public to {role};
    create sequence numbers;
    create table words (words text);
    create function hidden(words text) returns void language plpgsql as $$ begin execute words; end $$;
    create procedure hidden_too(words text) language plpgsql as $$ begin execute words; end $$;
    create function hidden_in_trigger() returns trigger language plpgsql as
        $$ begin execute new.words; return new; end $$;
    create trigger hiding before insert on words for each row execute function hidden_in_trigger();
    grant all on numbers, words to {role};
"""
_FOREIGN_SETUP = """
    grant execute on function dblink_connect_u(text), dblink_connect_u(text, text) to {role};
    create server far foreign data wrapper postgres_fdw options (host '{host}', dbname '{database}');
    create user mapping for {role} server far options (user '{user}', password_required 'false');
    create foreign table far_words (words text) server far options (table_name 'words');
    grant all on far_words to {role};
"""
# A library stays loaded until the session ends, and its settings with it.
LIBRARIES = "split_part(name, '.', 1) in ('plpgsql', 'pg_trgm', 'postgres_fdw', 'auto_explain')"
STATE_QUERIES = {
    "settings": f"select name, setting, source, reset_val from pg_settings where not {LIBRARIES} order by name",
    "own settings": "select nullif(current_setting('app.tenant', true), '')",
    "roles": "select current_user, session_user, current_setting('role'), current_setting('is_superuser')",
    "statements": "select name, statement, from_sql from pg_prepared_statements",
    "cursors": "select name, statement from pg_cursors where name not like '<%'",
    "locks": "select locktype, objid, mode from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'",
    "channels": "select pg_listening_channels()",
    "temporary": "select relname from pg_class where relnamespace = pg_my_temp_schema()",
    "last number": "select lastval()",
    "number": "select currval('numbers')",
    "foreign connections": "select server_name from postgres_fdw_get_connections()",
    "named connections": "select dblink_get_connections()",
    "unnamed connection": "select dblink_disconnect()",
    "activity": "select usename, application_name, state, query like 'select usename%' from pg_stat_activity"
    " where pid = pg_backend_pid()",
}
SessionState = dict[str, object]


def tenant_role(pooler: Pooler) -> str:
    return f"{pooler.database}_tenant"


async def connect_tenant(pooler: Pooler, **startup: str) -> ProtocolClient:
    return await pooler.connect(user=tenant_role(pooler), application_name="tenant", **startup)


async def read_session_state(client: ProtocolClient) -> SessionState:
    """Runs every query of STATE_QUERIES; the value is its rows, or the SQLSTATE of its error."""
    state: SessionState = {}
    for name, sql in STATE_QUERIES.items():
        reply = await client.query(sql)
        state[name] = reply.sqlstate or sorted(reply.rows, key=str)
    return state


async def read_new_session_state(pooler: Pooler) -> SessionState:
    """Reads the state of a new session."""
    client = await pooler.connect_directly(user=tenant_role(pooler), application_name="tenant")
    state = await read_session_state(client)
    await client.terminate()
    return state


async def predict_random_values(pooler: Pooler) -> set[str | None]:
    """Returns values of random() that a client can predict after it set the seed."""
    rows = await pooler.superuser.fetch(
        f"select setseed({SEED}), null union all select null, random()::text from generate_series(1, 20)"
    )
    return {row[1] for row in rows[1:]}


@asynccontextmanager
async def open_tenant_pooler(server: PostgresServer, *extensions: str) -> AsyncIterator[Pooler]:
    async with open_pooler(server) as pooler:
        names = {"role": tenant_role(pooler), "database": pooler.database, "host": str(pooler.folder)}
        await pooler.superuser.execute(_SETUP.format(**names))
        for extension in extensions:
            await pooler.superuser.execute(f"create extension {extension}")
        if "dblink" in extensions:
            await pooler.superuser.execute(_FOREIGN_SETUP.format(user="store", **names))
        pooler.gateway.control_plane.access_reply = make_access(
            make_verifier(PASSWORD.encode(), b"0123456789abcdef", 1)
        )
        pooler.configure(servers=1, servers_per_pool=1)
        yield pooler
