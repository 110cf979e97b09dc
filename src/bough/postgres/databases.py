"""Statements that make databases so. Repeatable: they are planned from what is there."""

from collections.abc import Collection, Mapping

from bough.postgres.quoting import identifier

READ = "select 'database', pg_catalog.namesend(datname), null::text from pg_catalog.pg_database"
SIZE = """
    select coalesce(sum(pg_catalog.pg_database_size(oid)), 0)::bigint
      from pg_catalog.pg_database
     where not datistemplate and datname <> 'postgres'
"""


def create(name: str, owner: str) -> str:
    return f"create database {identifier(name)} owner {identifier(owner)}"


def plan(wished: Mapping[str, str], present: Collection[str], *, spare: str | None) -> list[str]:
    """Statements from the present databases to the wished ones (name → owner).

    `spare` is the template's own database in a volume that nobody has used: the first missing
    database takes it over, which is much faster than making one.
    """
    statements: list[str] = []
    if spare in wished or spare not in present:
        spare = None
    for name, owner in wished.items():
        if name in present:
            continue
        if spare is not None:
            statements.append(f"alter database {identifier(spare)} rename to {identifier(name)}")
            statements.append(f"alter database {identifier(name)} owner to {identifier(owner)}")
            spare = None
        else:
            statements.append(create(name, owner))
    return statements
