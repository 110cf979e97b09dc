"""Queries for the status of a server: its start time and the end of its WAL."""

from dataclasses import dataclass
from datetime import datetime

# A server in recovery, such as a read replica, writes no WAL.
SELECT_SERVER_STATUS = """
    select pg_catalog.pg_postmaster_start_time() as started_at,
           case when not pg_catalog.pg_is_in_recovery()
                then (pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_catalog.pg_lsn)::bigint
           end as wal
"""
# The end of the WAL in the notation of Postgres; in recovery, the end of the replayed WAL.
SELECT_END_LSN = """
    select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                else pg_catalog.pg_current_wal_insert_lsn() end::text
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    started_at: datetime
    wal: int | None  # the LSN as a number of bytes; None: the server writes no WAL
