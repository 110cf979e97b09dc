"""pg_partman: creates and removes partitions by time or number."""

from bough.postgres.extensions.extension import Extension

PG_PARTMAN = Extension(
    name="pg_partman",
    summary="creates and removes partitions by time or number",
    package="postgresql-{major}-partman",
    is_in_default_build=True,
    needs_superuser=False,
    review=(
        "Its scripts run as the role that creates it, which owns all its objects, also where the packaged "
        "control file asks for a superuser: SECURITY DEFINER functions of 4.7 have no fixed search_path. The "
        "background worker pg_partman_bgw would run as a superuser and cannot be preloaded; run_maintenance can "
        "be called by pg_cron."
    ),
)
