"""pg_stat_kcache: CPU time and reads of queries."""

from bough.postgres.extensions.extension import Extension

PG_STAT_KCACHE = Extension(
    name="pg_stat_kcache",
    summary="CPU time and reads of statements",
    package="postgresql-{major}-pg-stat-kcache",
    requires=("pg_stat_statements",),
    preload_library="pg_stat_kcache",
    review=(
        "Counters in shared memory, which views show; they cover the roles and databases of one compute. No "
        "SECURITY DEFINER. It stores them in a file of its own when the server stops. It needs "
        "pg_stat_statements before it in preload_libraries."
    ),
)
