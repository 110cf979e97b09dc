"""Statements that create and change databases. They are planned from the current state, so they are repeatable."""

from collections.abc import Collection, Mapping

from bough.postgres import MAINTENANCE_DATABASE, RESERVED_PREFIX
from bough.postgres.quoting import identifier

SELECT_EXISTING = """
    select 'database', pg_catalog.namesend(datname), null::text from pg_catalog.pg_database
     where datname::text = any($2)
"""
# All databases except those of the platform and of Postgres and those with an unfinished drop. It has the columns and
# the row limit of `roles.SELECT_ALL`.
SELECT_ALL = f"""
    select 'database', pg_catalog.namesend(datname), null::boolean, null::text, null::pg_catalog.timestamptz,
           pg_catalog.namesend(rolname), pg_catalog.count(*) over ()
      from pg_catalog.pg_database join pg_catalog.pg_authid on pg_authid.oid = datdba
     where datname not in ('{MAINTENANCE_DATABASE}', 'template0', 'template1') and datconnlimit <> -2
       and not pg_catalog.starts_with(rolname::text, '{RESERVED_PREFIX}')
     order by datname::text = any($3) desc, pg_database.oid limit $4
"""
# After an interrupted DROP DATABASE, Postgres rejects all connections to the database.
IS_BROKEN = "select datconnlimit = -2 from pg_catalog.pg_database where datname = $1"
SELECT_OWNED = """
    select pg_catalog.namesend(datname) from pg_catalog.pg_database
      join pg_catalog.pg_authid on pg_authid.oid = datdba
     where rolname = $1 order by datname
"""
TERMINATE_SESSIONS = "select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where datname = $1"
# Includes databases that a tenant has marked as templates.
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
    """Rename a database without sessions, to which connections are not allowed, and allow them again."""
    return [
        f"alter database {identifier(name)} rename to {identifier(new_name)}",
        allow_connections(new_name, allowed=True),
        set_owner(new_name, owner),
    ]


def drop(name: str) -> str:
    return f"drop database if exists {identifier(name)} with (force)"


def plan_databases(target: Mapping[str, str], present: Collection[str], *, spare: str | None) -> list[str]:
    """Plan the statements that create the missing databases of `target` (name → owner).

    `spare` is the template's own database in an unused volume. The first missing database reuses it, which is much
    faster than creating one.
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
