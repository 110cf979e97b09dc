"""The statements that clients of a server run now, and the statements that cancel one of them or end its session.

A client's session is listed while it runs a statement or has a transaction open. Its process and the times at which
session and statement began identify the statement: another one of the same session has another time, and another
session with the same process id began at another time. The condition and the signal are in one query.
"""

from bough.postgres import RESERVED_PREFIX

MAX_LISTED = 200
MAX_TEXT_BYTES = 8192
_MAX_BLOCKERS = 20
_CANCEL = "pg_catalog.pg_cancel_backend(pid)"
_ACTIVE = "state in ('active', 'fastpath function call')"
_IS_STATEMENT = f"""
    backend_type = 'client backend' and state <> 'idle' and pid <> pg_catalog.pg_backend_pid()
    and not coalesce(pg_catalog.starts_with(usename::text, '{RESERVED_PREFIX}'), false)
    and backend_start is not null and query_start is not null
"""
# Texts are in the encodings of their databases, so they are read as bytes.
SELECT_RUNNING = f"""
    select pid, backend_start, xact_start, query_start, state::text, wait_event_type::text, wait_event::text,
           pg_catalog.namesend(usename) as role, pg_catalog.namesend(datname) as database,
           pg_catalog.textsend(application_name) as application_name,
           pg_catalog.substr(pg_catalog.textsend(query), 1, {MAX_TEXT_BYTES}) as text,
           case when wait_event_type = 'Lock' then pg_catalog.array_to_string(
               (pg_catalog.pg_blocking_pids(pid))[1:{_MAX_BLOCKERS}], ' ') end as blocked_by
      from pg_catalog.pg_stat_activity
     where {_IS_STATEMENT}
     order by query_start, pid limit {MAX_LISTED}
"""


def build_signal(*, terminate: bool) -> str:
    """Build the query for a pid and the times of the session and the statement.

    It returns no row if this statement does not run any more, and null if the session has only a transaction open, in
    which there is nothing to cancel.
    """
    signal = "pg_catalog.pg_terminate_backend(pid)" if terminate else f"case when {_ACTIVE} then {_CANCEL} end"
    return f"""
        select {signal} from pg_catalog.pg_stat_activity
         where pid = $1 and backend_start = $2 and query_start = $3 and {_IS_STATEMENT}
    """
