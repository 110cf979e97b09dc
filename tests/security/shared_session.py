"""Two clients of one role that share the only server connection of a pool, and a look at what a session keeps."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import world
from gateway.auth.client import stored
from gateway.doorway import PASSWORD
from gateway.planes import access
from gateway.pooling import pooler as poolers
from gateway.pooling.pooler import Pooler
from gateway.pooling.speaking import Speaker

CLEANED, KEEPING = ("cube", "pg_trgm"), ("dblink", "postgres_fdw")  # extensions, by whether DISCARD ALL is enough
PREDICTED = "0.25"  # a seed
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
VIEWS = {
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
Seen = dict[str, object]


def role_of(pooler: Pooler) -> str:
    return f"{pooler.database}_tenant"


async def tenant(pooler: Pooler, **startup: str) -> Speaker:
    return await pooler.client(user=role_of(pooler), application_name="tenant", **startup)


async def look(speaker: Speaker) -> Seen:
    """All views of what a session keeps, each as rows or as the code of its error."""
    seen: Seen = {}
    for name, sql in VIEWS.items():
        answer = await speaker.query(sql)
        seen[name] = answer.code or sorted(answer.rows, key=str)
    return seen


async def new_session(pooler: Pooler) -> Seen:
    """How all that looks in a session that nobody had before."""
    speaker = await pooler.direct(user=role_of(pooler), application_name="tenant")
    seen = await look(speaker)
    await speaker.terminate()
    return seen


async def predicted(pooler: Pooler) -> set[str | None]:
    """What random() gives to whoever knows the seed."""
    rows = await pooler.behind.fetch(
        f"select setseed({PREDICTED}), null union all select null, random()::text from generate_series(1, 20)"
    )
    return {row[1] for row in rows[1:]}


@asynccontextmanager
async def opened(server: world.PostgresServer, *extensions: str) -> AsyncIterator[Pooler]:
    async with poolers.opened(server) as pooler:
        names = {"role": role_of(pooler), "database": pooler.database, "host": str(pooler.folder)}
        await pooler.behind.execute(_MADE.format(**names))
        for each in extensions:
            await pooler.behind.execute(f"create extension {each}")
        if "dblink" in extensions:
            await pooler.behind.execute(_FOREIGN.format(user="store", **names))
        pooler.doorway.plane.answer = access(stored(PASSWORD.encode(), b"0123456789abcdef", 1))
        pooler.set(servers=1, servers_per_pool=1)
        yield pooler
