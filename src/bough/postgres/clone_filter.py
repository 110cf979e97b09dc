"""What in a data folder belongs to the server that runs in it, and not to a copy of it.

The same things that a base backup of Postgres leaves out, and what earlier backups left there. A
clone with the parent's slots would keep WAL for ever; one with its `postmaster.pid` would not start.
Names are relative to the data folder. Cloning asks for every file, so the commonest name of all, a
relation's number, is answered first.
"""

# The folder is there, and empty. WAL is the business of whoever clones.
EMPTIED_FOLDERS = frozenset(
    (
        "pg_wal",
        "pg_replslot",
        "pg_stat_tmp",
        "pg_notify",
        "pg_dynshmem",
        "pg_serial",
        "pg_snapshots",
        "pg_subtrans",
    )
)
# Below the top only these, and the folders in them, have something that is left out.
SEARCHED_FOLDERS = frozenset(("base", "global"))
_OF_THE_SERVER = (
    "postmaster.pid",
    "postmaster.opts",
    "current_logfiles",
    "postgresql.auto.conf.tmp",
    # Of another backup: ours come from whoever clones.
    "backup_label",
    "backup_manifest",
    "tablespace_map",
    # What a server is to do when it starts is nobody else's business.
    "standby.signal",
    "recovery.signal",
)
_ANYWHERE = ("pg_internal.init", "pgsql_tmp")
_DIGITS = frozenset("0123456789")


# Where a relation has room and what of it is visible to all. Postgres does without either and makes them again.
MAP_FORK_SUFFIXES = ("_fsm", "_vm")


def is_emptied(relative: str) -> bool:
    return relative in EMPTIED_FOLDERS


def is_excluded(relative: str) -> bool:
    """Not in a clone at all, with a suffix such as `.old` or `.tmp` either."""
    name = relative[relative.rfind("/") + 1 :]
    if name[0] in _DIGITS:
        return False
    if name[0] == "t" and _is_temporary_relation(relative, name):
        return True
    return name.startswith(_ANYWHERE) or ("/" not in relative and name.startswith(_OF_THE_SERVER))


def _is_temporary_relation(relative: str, name: str) -> bool:
    """`t<backend>_<relation>`, maybe with a fork and a segment, where a database keeps its files."""
    backend, _, rest = name[1:].partition("_")
    relation = rest.partition(".")[0].partition("_")[0]
    return backend.isdecimal() and relation.isdecimal() and relative.startswith(("base/", "pg_tblspc/"))
