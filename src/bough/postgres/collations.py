"""Find indexes whose order may be wrong because a library sorts text differently than when they were built.

Postgres records the version of the library that provides a collation, and warns when it differs.
"""

from bough.postgres.quoting import identifier

MAX_LISTED = 100  # indexes of a database

# Names are bytes, because a name need not be valid UTF-8. The builtin provider and the locale C have no versions.
SELECT_INDEXES = f"""
    with changed as (
        select oid from pg_catalog.pg_collation where collversion <> pg_catalog.pg_collation_actual_version(oid)
        union all
        select 'pg_catalog.default'::pg_catalog.regcollation::pg_catalog.oid from pg_catalog.pg_database
         where datname = pg_catalog.current_database()
           and datcollversion <> pg_catalog.pg_database_collation_actual_version(oid)
    )
    select pg_catalog.namesend(nspname) as schema, pg_catalog.namesend(relname) as name
      from pg_catalog.pg_index
      join pg_catalog.pg_class on pg_class.oid = indexrelid
      join pg_catalog.pg_namespace on pg_namespace.oid = relnamespace
     where exists (select from changed where changed.oid = any (indcollation::pg_catalog.oid[]))
     order by indexrelid limit {MAX_LISTED}
"""
# Versions before 15 do not record the version of a database's own collation.
FIRST_MAJOR = 15


def reindex_statement(schema: str, index: str) -> str:
    return f"reindex index concurrently {identifier(schema)}.{identifier(index)}"
