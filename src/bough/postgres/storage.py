"""The query for the storage that a tenant uses, and the settings that limit it according to the plan.

It counts everything that a tenant can fill: databases, shared catalogs, temporary files, files of logical decoding,
the notification queue, exported snapshots, transaction status, and the WAL that its slots retain.
"""

from collections.abc import Mapping

from bough.postgres import MAINTENANCE_DATABASE, activity, statement_statistics
from bough.postgres.postgresql_conf import COMPUTE_DEFAULTS
from bough.postgres.replication import SLOT_PREFIX
from bough.postgres.tenant_settings.table import SLOT_WAL_KEEP_SIZE

TEMP_FILE_LIMIT, MAX_SLOT_WAL_KEEP_SIZE = "temp_file_limit", "max_slot_wal_keep_size"
_KB, _MB = 1024, 1024**2
_BOOTSTRAP_OID = 10  # the bootstrap superuser, which is the platform's role
_MIN_LIMIT_BYTES = 64 * _MB  # enough for a sort or a slow slot on the smallest plan
_MAX_TEMP_FILE_BYTES = 2**31 * _KB - _KB  # Postgres stores the limit as kB in 32 bits

# The size of a new template: `template0`, which cannot be changed, three databases of the same size, half a megabyte of
# shared catalogs, and pg_stat_statements in the maintenance database.
_EMPTY = f"4 * pg_catalog.pg_database_size('template0') + {_MB // 2 + _MB // 8}"
# Files outside the databases. Each counts as at least one block, because a tenant can create many small ones.
_FOLDERS = (
    "pg_commit_ts pg_logical/mappings pg_logical/snapshots pg_multixact/members pg_multixact/offsets pg_notify "
    "pg_serial pg_snapshots pg_stat_tmp pg_subtrans pg_twophase pg_xact"
).split()
_FILES = f"""
    select coalesce(pg_catalog.sum(greatest(file_stat.size, 4096)), 0)
      from (values {", ".join(f"('{folder}')" for folder in _FOLDERS)}
            union all
            select pg_catalog.concat('pg_replslot/', slot) from pg_catalog.pg_ls_dir('pg_replslot', true, false) as slot
            union all
            select pg_catalog.concat('base/pgsql_tmp/', shared)
              from pg_catalog.pg_ls_dir('base/pgsql_tmp', true, false) as shared
             where pg_catalog.right(shared, 7) = 'fileset') as folder (path),
           pg_catalog.pg_ls_dir(folder.path, true, false) as name,
           pg_catalog.pg_stat_file(pg_catalog.concat(folder.path, '/', name), true) as file_stat
"""
# Without the slots of read replicas and of the platform's sessions that copy data. It uses functions instead of views,
# because each session runs it once and would have to load the definitions of the views.
_RETAINED_WAL = f"""
    select coalesce(pg_catalog.max(
               case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                    else pg_catalog.pg_current_wal_lsn() end - restart_lsn), 0)
      from pg_catalog.pg_get_replication_slots() as slot
     where not (slot_type = 'physical' and pg_catalog.starts_with(slot_name::text, '{SLOT_PREFIX}'))
       and not exists (select from pg_catalog.pg_stat_get_activity(slot.active_pid) as reader
                        where slot.active_pid is not null and reader.usesysid = {_BOOTSTRAP_OID})
"""
# All tablespaces, because they include temporary files and databases that are being created.
_TABLESPACES = "select pg_catalog.sum(pg_catalog.pg_tablespace_size(oid)) from pg_catalog.pg_tablespace"
SELECT_STORED_BYTES = f"""
    select (greatest(0, ({_TABLESPACES}) - ({_EMPTY})) + ({_FILES}) + greatest(0, ({_RETAINED_WAL})))::bigint as bytes,
           pg_catalog.pg_size_bytes(pg_catalog.current_setting('{TEMP_FILE_LIMIT}')) as temp_file_bytes,
           not pg_catalog.pg_is_in_recovery()
               and pg_catalog.has_database_privilege('public', 'template1', 'connect') as is_public,
           ({activity.IS_BUSY}) as is_busy,
           coalesce({statement_statistics.TEXT_FILE_BYTES}, 0) as statement_text_bytes
"""

# Creating a database from `template1` needs no connection to it. `postgres` stays open because many tools connect to it
# first. The platform's sessions use it too, so tenants cannot store anything in it, including large objects.
REVOKE_PUBLIC = (
    "revoke connect, temporary on database template1 from public",
    f"revoke temporary on database {MAINTENANCE_DATABASE} from public",
    "revoke execute on function pg_catalog.lo_creat(pg_catalog.int4), pg_catalog.lo_create(pg_catalog.oid), "
    "pg_catalog.lo_from_bytea(pg_catalog.oid, pg_catalog.bytea) from public",
)


def temp_file_bytes(storage_bytes: int) -> int:
    """Return the limit for the temporary files of one process: half of the plan's storage."""
    return min(max(_MIN_LIMIT_BYTES, storage_bytes // 2 // _KB * _KB), _MAX_TEMP_FILE_BYTES)


def render_limits(storage_bytes: int | None, settings: Mapping[str, str]) -> str:
    """Render `LIMITS_FILE` from the plan; empty without a plan. `settings` are the tenant's settings."""
    if storage_bytes is None:
        return ""
    requested = (
        SLOT_WAL_KEEP_SIZE.parse(settings.get(MAX_SLOT_WAL_KEEP_SIZE, COMPUTE_DEFAULTS[MAX_SLOT_WAL_KEEP_SIZE])) or 0
    )
    kept = min(max(_MIN_LIMIT_BYTES, storage_bytes) // _MB, int(requested))
    return f"{TEMP_FILE_LIMIT} = '{temp_file_bytes(storage_bytes) // _KB}kB'\n{MAX_SLOT_WAL_KEEP_SIZE} = '{kept}MB'\n"
