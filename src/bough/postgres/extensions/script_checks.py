"""Statements that check, at the beginning of an extension's script, whether it may run.

A script runs as a superuser, with the schema of the extension in the search_path, and that schema may belong to a
tenant. A statement that executes a query could call a function or operator of the tenant whose arguments fit better
than those of the one that is meant.
"""

from collections.abc import Iterable

from bough.postgres.extensions.extension import Extension
from bough.postgres.quoting import literal

# How long a session that creates an extension waits for transactions of other sessions.
_PATIENCE_SECONDS = 5


def build_preload_warning(library: str) -> str:
    """Return a statement for the script of an extension that can be created without its library, but does nothing."""
    message = f'the extension "{library}" has no effect until its library is preloaded'
    return _raise_unless_preloaded(library, "warning", message, f"{_preload_hint(library)} and restart the endpoint.")


def build_preload_check(extension: Extension) -> str:
    library = extension.preload_library or ""
    message = f'the extension "{extension.name}" needs its library to be preloaded'
    hint = f"{_preload_hint(library)} restart the endpoint, and try again."
    return _raise_unless_preloaded(library, "object_not_in_prerequisite_state", message, hint)


def _raise_unless_preloaded(library: str, level: str, message: str, hint: str) -> str:
    return f"""do $bough$
begin
    if not {literal(library)} operator(pg_catalog.=) any (pg_catalog.regexp_split_to_array(
        pg_catalog.current_setting('shared_preload_libraries'), ' *, *'))
    then
        raise {level} using
            message = {literal(message)},
            hint = {literal(hint)};
    end if;
end $bough$;
"""


def _preload_hint(library: str) -> str:
    return f'Add "{library}" to preload_libraries.enabled_libraries in the settings of the project or the endpoint,'


def build_schema_check(extension: Extension, called_names: Iterable[str]) -> str:
    """Refuse schemas with functions of tenants whose names the script may call, or with operators of tenants.

    What the check has seen must be what the script will see, so no other session may change it in between.
    """
    names = literal("{" + ",".join(sorted(called_names)) + "}")
    return f"""do $bough$
declare
    waiting pg_catalog.xid[];
    deadline pg_catalog.timestamptz;
    found pg_catalog.text;
begin
{_build_isolation_check(extension)}{_build_session_wait(extension)}{_build_name_check(extension)}\
    select pg_catalog.format('%s', p.oid::pg_catalog.regprocedure) into found
      from pg_catalog.pg_proc as p join pg_catalog.pg_roles as r on r.oid operator(pg_catalog.=) p.proowner
     where p.pronamespace operator(pg_catalog.=) any (
               select n.oid from pg_catalog.pg_namespace as n
                where n.nspname operator(pg_catalog.=) any (pg_catalog.current_schemas(false)))
       and not r.rolsuper
       and pg_catalog.lower(p.proname::pg_catalog.text) operator(pg_catalog.=) any ({names}::pg_catalog.text[])
     limit 1;
    if found is null then
        select pg_catalog.format('%s', o.oid::pg_catalog.regoperator) into found
          from pg_catalog.pg_operator as o join pg_catalog.pg_roles as r on r.oid operator(pg_catalog.=) o.oprowner
         where o.oprnamespace operator(pg_catalog.=) any (
                   select n.oid from pg_catalog.pg_namespace as n
                    where n.nspname operator(pg_catalog.=) any (pg_catalog.current_schemas(false)))
           and not r.rolsuper
         limit 1;
    end if;
    if found is not null then
        raise object_not_in_prerequisite_state using
            message = {literal(f'the script of the extension "{extension.name}" could call ')}
                operator(pg_catalog.||) found operator(pg_catalog.||) ' instead of a function or operator of Postgres',
            hint = 'Create the extension in a schema of its own, such as with CREATE EXTENSION … SCHEMA.';
    end if;
end $bough$;
"""


def _build_isolation_check(extension: Extension) -> str:
    """The check would read what was there when the transaction began, and the script finds what is there now."""
    message = f'the script of the extension "{extension.name}" needs the isolation level READ COMMITTED'
    return f"""\
    if pg_catalog.current_setting('transaction_isolation') operator(pg_catalog.=) any
        ('{{repeatable read,serializable}}'::pg_catalog.text[])
    then
        raise object_not_in_prerequisite_state using
            message = {literal(message)},
            hint = 'Try again in a transaction that was started with BEGIN ISOLATION LEVEL READ COMMITTED.';
    end if;
"""


def _build_session_wait(extension: Extension) -> str:
    """Keep other sessions from changing what the script may call, and wait for those that may have done so already.

    Functions, operators and schemas of a transaction that is still open are not visible to the check. They would be to
    the script as soon as the transaction is committed, and a tenant can delay the script until then. Statistics are
    kept from their first use in a transaction, so the list of sessions may be an old one. The last lock is weaker than
    the first, but to acquire it makes this session aware of schemas that were renamed meanwhile.
    """
    message = f'the script of the extension "{extension.name}" cannot run while transactions of other sessions are open'
    return f"""\
    lock table pg_catalog.pg_namespace, pg_catalog.pg_operator, pg_catalog.pg_proc in share row exclusive mode;
    deadline := pg_catalog.clock_timestamp() operator(pg_catalog.+) '{_PATIENCE_SECONDS} s'::pg_catalog.interval;
    perform pg_catalog.pg_stat_clear_snapshot();
    select pg_catalog.array_agg(l.transactionid) into waiting
      from pg_catalog.pg_locks as l left join pg_catalog.pg_stat_activity as a on a.pid operator(pg_catalog.=) l.pid
     where l.locktype operator(pg_catalog.=) 'transactionid' and l.mode operator(pg_catalog.=) 'ExclusiveLock'
       and (l.pid is null or l.pid operator(pg_catalog.<>) pg_catalog.pg_backend_pid())
       and (a.datname is null or a.datname operator(pg_catalog.=) pg_catalog.current_database());
    while exists (
        select from pg_catalog.pg_locks as l
         where l.locktype operator(pg_catalog.=) 'transactionid' and l.mode operator(pg_catalog.=) 'ExclusiveLock'
           and l.transactionid operator(pg_catalog.=) any (waiting))
    loop
        if pg_catalog.clock_timestamp() operator(pg_catalog.>) deadline then
            raise object_in_use using
                message = {literal(message)},
                hint = 'End the transactions that write to this database (see pg_stat_activity), and try again.';
        end if;
        perform pg_catalog.pg_sleep(0.01);
    end loop;
    lock table pg_catalog.pg_namespace in row share mode;
"""


def _build_name_check(extension: Extension) -> str:
    """An extension with a fixed schema names it in its scripts; its owner could have renamed it."""
    if extension.schema is None:
        return ""
    return f"""\
    if pg_catalog.current_schema() operator(pg_catalog.<>) {literal(extension.schema)} then
        raise object_not_in_prerequisite_state using
            message = {literal(f'the schema of the extension "{extension.name}" must be called {extension.schema}')},
            hint = 'Rename it back with ALTER SCHEMA.';
    end if;
"""
