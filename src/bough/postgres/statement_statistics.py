"""The statistics of statements: the extension pg_stat_statements in the maintenance database, and the queries on it.

The extension shows the statements of all databases. It is in a schema of its own that belongs to the superuser, so that
no tenant can replace its functions, and the queries name this schema. Numbers are read as plain types.
"""

from enum import StrEnum

from bough.postgres.preload_libraries import STATEMENT_STATISTICS

EXTENSION = STATEMENT_STATISTICS
SCHEMA = "bough_statistics"
CREATE = (
    f"create schema if not exists {SCHEMA}",
    f"create extension if not exists {EXTENSION} schema {SCHEMA}",
)
# The server keeps the texts in one file, which every query that shows texts reads completely.
MAX_TEXT_FILE_BYTES = 128 * 1024**2
TEXT_FILE_BYTES = "(pg_catalog.pg_stat_file('pg_stat_tmp/pgss_query_texts.stat', true)).size"

MAX_TEXT_BYTES = 8192  # of one statement that a reply has; longer ones are cut

_SUPERUSER_OID = 10  # the bootstrap superuser, which is the platform's role
IS_OWN_SCHEMA = f"(nspname = '{SCHEMA}' and nspowner = {_SUPERUSER_OID})"

SELECT_STATE = f"""
    select '{EXTENSION}' = any (pg_catalog.regexp_split_to_array(
               pg_catalog.current_setting('shared_preload_libraries'), ' *, *')) as is_preloaded,
           exists (select from pg_catalog.pg_extension
                     join pg_catalog.pg_namespace on pg_namespace.oid = extnamespace
                    where extname = '{EXTENSION}' and extowner = {_SUPERUSER_OID} and {IS_OWN_SCHEMA}) as is_created,
           pg_catalog.pg_is_in_recovery() as is_in_recovery,
           pg_catalog.current_setting('server_version_num')::pg_catalog.int4 as version,
           coalesce({TEXT_FILE_BYTES}, 0) as text_bytes
"""
SELECT_INFO = f"select dealloc, stats_reset from {SCHEMA}.pg_stat_statements_info()"
RESET = f"select {SCHEMA}.pg_stat_statements_reset() is null"
_SINCE_COLUMN_SINCE = 17


class StatisticsOrder(StrEnum):
    """What the statements are sorted by, the largest first."""

    TOTAL_TIME = "total_time"
    MEAN_TIME = "mean_time"
    MAX_TIME = "max_time"
    CALLS = "calls"
    ROWS = "rows"
    SHARED_BLOCKS_READ = "shared_blocks_read"
    WAL_BYTES = "wal_bytes"


_COLUMNS = {
    StatisticsOrder.TOTAL_TIME: "total_exec_time",
    StatisticsOrder.MEAN_TIME: "mean_exec_time",
    StatisticsOrder.MAX_TIME: "max_exec_time",
    StatisticsOrder.CALLS: "calls",
    StatisticsOrder.ROWS: "rows",
    StatisticsOrder.SHARED_BLOCKS_READ: "shared_blks_read",
    StatisticsOrder.WAL_BYTES: "wal_bytes",
}


def build_select(order: StatisticsOrder, major: int) -> str:
    """Build the query. Its parameters: whether to read texts, the database or null, the role or null, the number of
    rows.

    Texts are in the encodings of their databases, and so are names, so they are read as bytes.
    """
    since = "stats_since" if major >= _SINCE_COLUMN_SINCE else "null::pg_catalog.timestamptz"
    return f"""
        select queryid, toplevel, pg_catalog.namesend(rolname) as role, pg_catalog.namesend(datname) as database,
               calls, rows, total_exec_time, mean_exec_time, max_exec_time, shared_blks_hit, shared_blks_read,
               least(wal_bytes, {2**63 - 1})::pg_catalog.int8 as wal_bytes, {since} as since,
               pg_catalog.substr(pg_catalog.textsend(query), 1, {MAX_TEXT_BYTES}) as text,
               coalesce(pg_catalog.octet_length(query), 0) as text_bytes
          from (select statement.*, rolname, datname
                  from {SCHEMA}.pg_stat_statements($1) as statement
                  left join pg_catalog.pg_authid on pg_authid.oid = userid
                  left join pg_catalog.pg_database on pg_database.oid = dbid
                 where userid <> {_SUPERUSER_OID}
                   and ($2::pg_catalog.text is null or datname::pg_catalog.text = $2)
                   and ($3::pg_catalog.text is null or rolname::pg_catalog.text = $3)
                 order by {_COLUMNS[order]} desc, queryid
                 limit $4) as top
         order by {_COLUMNS[order]} desc, queryid
    """
