"""Which extensions a database has."""

MAX_LISTED = 500  # extensions of a database
MAX_VERSION_LENGTH = 64

# One more than is listed shows that there are more. The language comes with every database.
SELECT_EXTENSIONS = f"""
    select pg_catalog.namesend(extname) as name, pg_catalog.left(extversion, {MAX_VERSION_LENGTH}) as version
      from pg_catalog.pg_extension where extname <> 'plpgsql' order by extname limit {MAX_LISTED + 1}
"""
