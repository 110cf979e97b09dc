"""Statements that make databases so. Repeatable: they are planned from what is there."""

from collections.abc import Collection, Mapping

from bough.postgres import MAINTENANCE_DATABASE, RESERVED_PREFIX
from bough.postgres.quoting import identifier

SELECT_EXISTING = """
    select 'database', pg_catalog.namesend(datname), null::text from pg_catalog.pg_database
     where datname::text = any($2)
"""
# Every database but ours, Postgres's own and one whose removal was cut off; in the columns of `roles.NOW`, and up to a
# number like them.
SELECT_ALL = f"""
    select 'database', pg_catalog.namesend(datname), null::boolean, null::text, null::pg_catalog.timestamptz,
           pg_catalog.namesend(rolname), pg_catalog.count(*) over ()
      from pg_catalog.pg_database join pg_catalog.pg_authid on pg_authid.oid = datdba
     where datname not in ('{MAINTENANCE_DATABASE}', 'template0', 'template1') and datconnlimit <> -2
       and not pg_catalog.starts_with(rolname::text, '{RESERVED_PREFIX}')
     order by datname::text = any($3) desc, pg_database.oid limit $4
"""
# Its removal may have been cut off: then nobody gets into it any more.
IS_BROKEN = "select datconnlimit = -2 from pg_catalog.pg_database where datname = $1"
SELECT_OWNED = """
    select pg_catalog.namesend(datname) from pg_catalog.pg_database
      join pg_catalog.pg_authid on pg_authid.oid = datdba
     where rolname = $1 order by datname
"""
TERMINATE_SESSIONS = "select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where datname = $1"
# Whatever a tenant calls a template counts too.
SELECT_TOTAL_SIZE = f"""
    select coalesce(sum(pg_catalog.pg_database_size(oid)), 0)::bigint
      from pg_catalog.pg_database
     where datname not in ('{MAINTENANCE_DATABASE}', 'template0', 'template1')
"""


def create(name: str, owner: str) -> str:
    return f"create database {identifier(name)} owner {identifier(owner)}"


def set_owner(name: str, owner: str) -> str:
    return f"alter database {identifier(name)} owner to {identifier(owner)}"


def allow_connections(name: str, *, allowed: bool) -> str:
    return f"alter database {identifier(name)} allow_connections {'true' if allowed else 'false'}"


def rename(name: str, new_name: str, owner: str) -> list[str]:
    """Of a database that nobody is in, nor can come into; from then on everybody can again."""
    return [
        f"alter database {identifier(name)} rename to {identifier(new_name)}",
        allow_connections(new_name, allowed=True),
        set_owner(new_name, owner),
    ]


def drop(name: str) -> str:
    return f"drop database if exists {identifier(name)} with (force)"


def plan_databases(target: Mapping[str, str], present: Collection[str], *, spare: str | None) -> list[str]:
    """Statements from the present databases to the wished ones (name → owner).

    `spare` is the template's own database in a volume that nobody has used: the first missing
    database takes it over, which is much faster than making one.
    """
    statements: list[str] = []
    if spare in target or spare not in present:
        spare = None
    for name, owner in target.items():
        if name in present:
            continue
        if spare is not None:
            statements.append(f"alter database {identifier(spare)} rename to {identifier(name)}")
            statements.append(f"alter database {identifier(name)} owner to {identifier(owner)}")
            spare = None
        else:
            statements.append(create(name, owner))
    return statements
