"""pg_qualstats: statistics about conditions in queries."""

from bough.postgres.extensions.extension import Extension

PG_QUALSTATS = Extension(
    name="pg_qualstats",
    summary="statistics about conditions in queries",
    package="postgresql-{major}-pg-qualstats",
    preload_library="pg_qualstats",
    review=(
        "Counters in shared memory, which views show; they cover the roles and databases of one compute. No "
        "SECURITY DEFINER. No files."
    ),
)
