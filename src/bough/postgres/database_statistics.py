"""The query for the statistics that a server counts: transactions, rows, blocks and WAL, of all databases of a tenant.

It reads shared memory only, no table of a tenant and no file. Databases of the platform and of Postgres do not count,
so that sessions of the platform are not part of the result.
"""

from bough.postgres import MAINTENANCE_DATABASE

# Names of metrics → columns of pg_stat_database.
COLUMNS = {
    "transactions_committed": "xact_commit",
    "transactions_rolled_back": "xact_rollback",
    "rows_returned": "tup_returned",
    "rows_fetched": "tup_fetched",
    "rows_inserted": "tup_inserted",
    "rows_updated": "tup_updated",
    "rows_deleted": "tup_deleted",
    "blocks_hit": "blks_hit",
    "blocks_read": "blks_read",
}
_SUMS = ",\n           ".join(f"coalesce(sum({column}), 0)::bigint as {name}" for name, column in COLUMNS.items())

# After a crash, all statistics begin at zero; `reset_at` is then the time of the crash. A server in recovery, such as a
# read replica, writes no WAL and replays that of another one.
SELECT_STATISTICS = f"""
    select {_SUMS},
           (select stats_reset from pg_catalog.pg_stat_bgwriter) as reset_at,
           case when not pg_catalog.pg_is_in_recovery()
                then (pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_catalog.pg_lsn)::bigint
           end as wal_position,
           case when pg_catalog.pg_is_in_recovery()
                then (pg_catalog.pg_last_wal_replay_lsn() - '0/0'::pg_catalog.pg_lsn)::bigint
           end as replayed_position,
           case when pg_catalog.pg_is_in_recovery()
                then greatest(0, extract(epoch from pg_catalog.clock_timestamp()
                                                    - pg_catalog.pg_last_xact_replay_timestamp()))::float8
           end as replay_age
      from pg_catalog.pg_stat_database
     where datname not in ('{MAINTENANCE_DATABASE}', 'template0', 'template1')
"""
