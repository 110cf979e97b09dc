"""pg_wait_sampling: what sessions wait for."""

from bough.postgres.extensions.extension import Extension

PG_WAIT_SAMPLING = Extension(
    name="pg_wait_sampling",
    summary="samples of what sessions wait for",
    package="postgresql-{major}-pg-wait-sampling",
    preload_library="pg_wait_sampling",
    review=(
        "Counters in shared memory, which views show; they cover the roles and databases of one compute. No "
        "SECURITY DEFINER. Its background worker connects to no database."
    ),
)
