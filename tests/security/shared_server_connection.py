"""Two clients of one role that share the only server connection of a pool, and a look at what a session keeps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support import pooler as poolers
from support.control_plane import make_access
from support.gateway import PASSWORD
from support.pooler import Pooler
from support.postgres import PostgresServer
from support.protocol_client import ProtocolClient
from support.scram_client import make_verifier

RESETTABLE_EXTENSIONS, STATEFUL_EXTENSIONS = (
    ("cube", "pg_trgm"),
    ("dblink", "postgres_fdw"),
)  # extensions, by whether DISCARD ALL is enough
SEED = "0.25"  # a seed
_MADE = """
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
_FOREIGN = """
    grant execute on function dblink_connect_u(text), dblink_connect_u(text, text) to {role};
    create server far foreign data wrapper postgres_fdw options (host '{host}', dbname '{database}');
    create user mapping for {role} server far options (user '{user}', password_required 'false');
    create foreign table far_words (words text) server far options (table_name 'words');
    grant all on far_words to {role};
"""
LIBRARIES = "split_part(name, '.', 1) in ('plpgsql', 'pg_trgm', 'postgres_fdw', 'auto_explain')"  # stay loaded
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


async def read_session_state(speaker: ProtocolClient) -> SessionState:
    """All views of what a session keeps, each as rows or as the code of its error."""
    seen: SessionState = {}
    for name, sql in STATE_QUERIES.items():
        answer = await speaker.query(sql)
        seen[name] = answer.sqlstate or sorted(answer.rows, key=str)
    return seen


async def read_new_session_state(pooler: Pooler) -> SessionState:
    """How all that looks in a session that nobody had before."""
    speaker = await pooler.connect_directly(user=tenant_role(pooler), application_name="tenant")
    seen = await read_session_state(speaker)
    await speaker.terminate()
    return seen


async def predict_random_values(pooler: Pooler) -> set[str | None]:
    """What random() gives to whoever knows the seed."""
    rows = await pooler.superuser.fetch(
        f"select setseed({SEED}), null union all select null, random()::text from generate_series(1, 20)"
    )
    return {row[1] for row in rows[1:]}


@asynccontextmanager
async def open_tenant_pooler(server: PostgresServer, *extensions: str) -> AsyncIterator[Pooler]:
    async with poolers.open_pooler(server) as pooler:
        names = {"role": tenant_role(pooler), "database": pooler.database, "host": str(pooler.folder)}
        await pooler.superuser.execute(_MADE.format(**names))
        for each in extensions:
            await pooler.superuser.execute(f"create extension {each}")
        if "dblink" in extensions:
            await pooler.superuser.execute(_FOREIGN.format(user="store", **names))
        pooler.gateway.control_plane.access_reply = make_access(
            make_verifier(PASSWORD.encode(), b"0123456789abcdef", 1)
        )
        pooler.configure(servers=1, servers_per_pool=1)
        yield pooler
