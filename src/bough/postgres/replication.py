"""Names, settings and statements with which a read replica follows the primary of its branch.

All replicas of a branch share one role, and each has a slot. The slot keeps the WAL that its replica has not received
yet, up to `max_slot_wal_keep_size`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bough.postgres import REPLICA_ROLE, RESERVED_PREFIX
from bough.postgres.postgresql_conf import COMPUTE_DEFAULTS
from bough.postgres.quoting import literal

SIGNAL_FILE = "standby.signal"  # makes the server a standby
SLOTS_FOLDER = "pg_replslot"  # in the data directory; holds a folder for each slot
SLOT_PREFIX = f"{RESERVED_PREFIX}replica_"

# Settings that must not be lower on a standby than on its primary, with the defaults of Postgres.
STANDBY_MINIMUMS = {
    "max_connections": 100,
    "max_worker_processes": 8,
    "max_wal_senders": 10,
    "max_prepared_transactions": 0,
    "max_locks_per_transaction": 64,
}

ROLE_EXISTS = f"select exists (select from pg_catalog.pg_authid where rolname = '{REPLICA_ROLE}')"
SELECT_REPLICA_SLOTS = f"""
    select slot_name::text, active from pg_catalog.pg_replication_slots
     where slot_type = 'physical' and pg_catalog.starts_with(slot_name::text, '{SLOT_PREFIX}')
"""
HAS_FREE_SLOT = """
    select count(*) < pg_catalog.current_setting('max_replication_slots')::pg_catalog.int4
      from pg_catalog.pg_replication_slots
"""
CREATE_SLOT = (
    "select slot_name::text from pg_catalog.pg_create_physical_replication_slot($1, immediately_reserve => true)"
)
DROP_SLOT = "select pg_catalog.pg_drop_replication_slot($1)"

# Runs on a replica. The received LSN can be below the replayed one, as each connection starts at a segment.
SELECT_REPLICA_STATUS = """
    select pg_catalog.pg_is_in_recovery() as is_in_recovery,
           pg_catalog.pg_is_in_recovery() and pg_catalog.pg_is_wal_replay_paused() as is_paused,
           exists (select from pg_catalog.pg_stat_wal_receiver where status = 'streaming') as is_streaming,
           (greatest(pg_catalog.pg_last_wal_receive_lsn(), pg_catalog.pg_last_wal_replay_lsn())
            - '0/0'::pg_catalog.pg_lsn)::bigint as received,
           (pg_catalog.pg_last_wal_replay_lsn() - '0/0'::pg_catalog.pg_lsn)::bigint as replayed,
           extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp())::float8 as age
"""
# Runs on the primary. Only flushed WAL is sent. A primary in recovery writes no WAL.
SELECT_PRIMARY_LSN = """
    select (case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                 else pg_catalog.pg_current_wal_flush_lsn() end - '0/0'::pg_catalog.pg_lsn)::bigint
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """The progress of a replica."""

    is_in_recovery: bool  # False: it was promoted, which the platform never does
    is_paused: bool  # one of its `STANDBY_MINIMUMS` is lower than on the primary
    is_streaming: bool
    received_lsn: int | None  # in bytes; None: unknown
    replayed_lsn: int | None
    replay_age_seconds: float | None  # since the last replayed commit; None: there was none


def slot_name(volume: str) -> str:
    """Return the slot of the replica that uses this volume."""
    return SLOT_PREFIX + volume.replace("-", "_")


def role_statement(verifier: str, *, exists: bool) -> str:
    verb = "alter" if exists else "create"
    return f"{verb} role {REPLICA_ROLE} with login replication password {literal(verifier)}"


def render_passfile(password: str) -> str:
    return f"*:*:*:{REPLICA_ROLE}:{password}\n"


def standby_settings(host: str, passfile: str, slot: str) -> dict[str, str]:
    """Return the settings of a standby that follows the server whose socket is in the folder `host`.

    At shutdown, a server waits until its standbys have received all WAL. The timeout limits the wait for a hung one.
    """
    words = {
        "host": host,
        "port": "5432",
        "user": REPLICA_ROLE,
        "passfile": passfile,
        "application_name": slot,
        "options": "-c wal_sender_timeout=20s",
    }
    return {
        "primary_conninfo": " ".join(f"{name}={_quoted(value)}" for name, value in words.items()),
        "primary_slot_name": slot,
        "wal_retrieve_retry_interval": "2s",
    }


def raise_to_minimums(settings: Mapping[str, str], minimums: Mapping[str, str | int]) -> dict[str, str]:
    """Return the settings with every STANDBY_MINIMUMS setting raised to at least its value in `minimums`."""
    needed = {name: limit_value(minimums, name) for name in STANDBY_MINIMUMS}
    return {**settings, **{name: str(value) for name, value in needed.items() if value > limit_value(settings, name)}}


def limit_value(settings: Mapping[str, str | int], name: str) -> int:
    """Return the value of a limit with these settings, rounded as Postgres does."""
    return round(float(settings.get(name, COMPUTE_DEFAULTS.get(name, STANDBY_MINIMUMS[name]))))


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
