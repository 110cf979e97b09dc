"""Where a server has come to: since when it runs, and where its WAL ends. Pure."""

from dataclasses import dataclass
from datetime import datetime

# One that recovers, as a read replica does for all its life, writes no WAL.
SELECT_POSITION = """
    select pg_catalog.pg_postmaster_start_time() as started_at,
           case when not pg_catalog.pg_is_in_recovery()
                then (pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_catalog.pg_lsn)::bigint
           end as wal
"""
# The same as Postgres writes it. One that stands still has replayed all there is.
SELECT_END_LSN = """
    select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                else pg_catalog.pg_current_wal_insert_lsn() end::text
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    started_at: datetime
    wal: int | None  # the LSN as a number of bytes; None: it writes none
