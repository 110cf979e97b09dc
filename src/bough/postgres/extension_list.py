"""Which extensions a database has."""

from bough.postgres import statement_statistics

MAX_LISTED = 500  # extensions of a database
MAX_VERSION_LENGTH = 64

# One more than is listed shows that there are more. The language comes with every database, and the platform's own
# extension is in every build.
SELECT_EXTENSIONS = f"""
    select pg_catalog.namesend(extname) as name, pg_catalog.left(extversion, {MAX_VERSION_LENGTH}) as version
      from pg_catalog.pg_extension join pg_catalog.pg_namespace on pg_namespace.oid = extnamespace
     where extname <> 'plpgsql' and not {statement_statistics.IS_OWN_SCHEMA}
     order by extname limit {MAX_LISTED + 1}
"""
