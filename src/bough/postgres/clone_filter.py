"""Which files of a data directory belong to the running server and are excluded from a clone.

These are the files that a base backup of Postgres omits, and leftovers of earlier backups. A clone with the parent's
slots would keep WAL forever, and one with its `postmaster.pid` would not start. Names are relative to the data
folder. Cloning checks every file, so the most common kind of name, the number of a relation, is handled first.
"""

# The clone has these folders, but empty. The code that clones handles the WAL itself.
EMPTIED_FOLDERS = frozenset(
    (
        "pg_wal",
        "pg_replslot",
        # A stopped server leaves the statistics here, with texts of queries. Clones of running servers have none.
        "pg_stat",
        "pg_stat_tmp",
        "pg_notify",
        "pg_dynshmem",
        "pg_serial",
        "pg_snapshots",
        "pg_subtrans",
    )
)
# Below the top level, only these folders and their subfolders contain excluded files.
SEARCHED_FOLDERS = frozenset(("base", "global"))
_OF_THE_SERVER = (
    "postmaster.pid",
    "postmaster.opts",
    "current_logfiles",
    "postgresql.auto.conf.tmp",
    # Files of an earlier backup; the code that clones writes its own.
    "backup_label",
    "backup_manifest",
    "tablespace_map",
    # Signal files tell only the server in this folder what to do at its start.
    "standby.signal",
    "recovery.signal",
)
_ANYWHERE = ("pg_internal.init", "pgsql_tmp")
_DIGITS = frozenset("0123456789")


# The free space map and the visibility map. Postgres works without them and creates them again.
MAP_FORK_SUFFIXES = ("_fsm", "_vm")


def is_emptied(relative: str) -> bool:
    return relative in EMPTIED_FOLDERS


def is_excluded(relative: str) -> bool:
    """Return whether a clone omits the file, including variants with a suffix such as `.old` or `.tmp`."""
    name = relative[relative.rfind("/") + 1 :]
    if name[0] in _DIGITS:
        return False
    if name[0] == "t" and _is_temporary_relation(relative, name):
        return True
    return name.startswith(_ANYWHERE) or ("/" not in relative and name.startswith(_OF_THE_SERVER))


def _is_temporary_relation(relative: str, name: str) -> bool:
    """Match `t<backend>_<relation>`, optionally with a fork and a segment, in the folder of a database."""
    backend, _, rest = name[1:].partition("_")
    relation = rest.partition(".")[0].partition("_")[0]
    return backend.isdecimal() and relation.isdecimal() and relative.startswith(("base/", "pg_tblspc/"))
