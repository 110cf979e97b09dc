"""What a tenant stores, in one question, and the settings that bound it by its plan. Pure.

Counted is all that a tenant can fill: every database, shared catalogs, temporary files, what is spilled or kept for
logical decoding, the notification queue, exported snapshots, transaction status, and the WAL that its slots hold.
"""

from collections.abc import Mapping

from bough.postgres import MAINTENANCE_DATABASE, activity
from bough.postgres.postgresql_conf import COMPUTE_DEFAULTS
from bough.postgres.replication import SLOT_PREFIX
from bough.postgres.tenant_settings.table import SLOT_WAL_KEEP_SIZE

TEMP_FILE_LIMIT, MAX_SLOT_WAL_KEEP_SIZE = "temp_file_limit", "max_slot_wal_keep_size"
_KB, _MB = 1024, 1024**2
_OUR_OID = 10  # of the role that initdb made, which is ours
_LEAST = 64 * _MB  # a sort or a slow reader of the smallest plan
_MOST_TEMP_FILES = 2**31 * _KB - _KB  # Postgres counts kB in 32 bits

# Four databases come with the template: `template0`, which nobody can change, and three that were made like it. Then
# there are the shared catalogs, with half a megabyte.
_EMPTY = f"4 * pg_catalog.pg_database_size('template0') + {_MB // 2}"
# Beside the databases. Each file counts as a block at least: a tenant can make very many small ones.
_FOLDERS = (
    "pg_commit_ts pg_logical/mappings pg_logical/snapshots pg_multixact/members pg_multixact/offsets pg_notify "
    "pg_serial pg_snapshots pg_stat_tmp pg_subtrans pg_twophase pg_xact"
).split()
_FILES = f"""
    select coalesce(pg_catalog.sum(greatest(held.size, 4096)), 0)
      from (values {", ".join(f"('{folder}')" for folder in _FOLDERS)}
            union all
            select pg_catalog.concat('pg_replslot/', slot) from pg_catalog.pg_ls_dir('pg_replslot', true, false) as slot
            union all
            select pg_catalog.concat('base/pgsql_tmp/', shared)
              from pg_catalog.pg_ls_dir('base/pgsql_tmp', true, false) as shared
             where pg_catalog.right(shared, 7) = 'fileset') as folder (path),
           pg_catalog.pg_ls_dir(folder.path, true, false) as name,
           pg_catalog.pg_stat_file(pg_catalog.concat(folder.path, '/', name), true) as held
"""
# Not by the slots of read replicas, nor by those that our sessions have while they copy. Functions instead of their
# views: each session of ours asks once, and would read what the views are made of.
_RETAINED_WAL = f"""
    select coalesce(pg_catalog.max(
               case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                    else pg_catalog.pg_current_wal_lsn() end - restart_lsn), 0)
      from pg_catalog.pg_get_replication_slots() as slot
     where not (slot_type = 'physical' and pg_catalog.starts_with(slot_name::text, '{SLOT_PREFIX}'))
       and not exists (select from pg_catalog.pg_stat_get_activity(slot.active_pid) as reader
                        where slot.active_pid is not null and reader.usesysid = {_OUR_OID})
"""
# Of all tablespaces: temporary files and databases that are being made are in them too.
_TABLESPACES = "select pg_catalog.sum(pg_catalog.pg_tablespace_size(oid)) from pg_catalog.pg_tablespace"
SELECT_STORED_BYTES = f"""
    select (greatest(0, ({_TABLESPACES}) - ({_EMPTY})) + ({_FILES}) + greatest(0, ({_RETAINED_WAL})))::bigint as bytes,
           pg_catalog.pg_size_bytes(pg_catalog.current_setting('{TEMP_FILE_LIMIT}')) as temp_file_bytes,
           not pg_catalog.pg_is_in_recovery()
               and pg_catalog.has_database_privilege('public', 'template1', 'connect') as is_open,
           ({activity.IS_BUSY}) as is_busy
"""

# Nobody needs to be in `template1` to make a database of it. `postgres` stays open, because many tools
# connect to it first; but it is where our sessions work, so nothing can be put into it, large objects included.
REVOKE_PUBLIC = (
    "revoke connect, temporary on database template1 from public",
    f"revoke temporary on database {MAINTENANCE_DATABASE} from public",
    "revoke execute on function pg_catalog.lo_creat(pg_catalog.int4), pg_catalog.lo_create(pg_catalog.oid), "
    "pg_catalog.lo_from_bytea(pg_catalog.oid, pg_catalog.bytea) from public",
)


def temp_file_bytes(storage_bytes: int) -> int:
    """What the temporary files of one process may take: half of the plan's storage."""
    return min(max(_LEAST, storage_bytes // 2 // _KB * _KB), _MOST_TEMP_FILES)


def render_limits(storage_bytes: int | None, settings: Mapping[str, str]) -> str:
    """`LIMITS_FILE`, with what follows from the plan; empty when there is no plan. `given` are the tenant's."""
    if storage_bytes is None:
        return ""
    wished = (
        SLOT_WAL_KEEP_SIZE.parse(settings.get(MAX_SLOT_WAL_KEEP_SIZE, COMPUTE_DEFAULTS[MAX_SLOT_WAL_KEEP_SIZE])) or 0
    )
    kept = min(max(_LEAST, storage_bytes) // _MB, int(wished))
    return f"{TEMP_FILE_LIMIT} = '{temp_file_bytes(storage_bytes) // _KB}kB'\n{MAX_SLOT_WAL_KEEP_SIZE} = '{kept}MB'\n"
