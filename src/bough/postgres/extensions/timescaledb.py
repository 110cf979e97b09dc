"""TimescaleDB: tables that are partitioned by time. Debian packages the part under the Apache license."""

from bough.postgres.extensions.extension import Extension

TIMESCALEDB = Extension(
    name="timescaledb",
    summary="hypertables, partitioned by time (TimescaleDB, Apache part)",
    package="postgresql-{major}-timescaledb",
    majors=frozenset({17, 18}),
    preload_library="timescaledb",
    settings={"timescaledb.telemetry_level": "off", "timescaledb.license": "apache"},
    # The other tables describe hypertables and their chunks.
    tenant_tables=("bgw_job_stat_history", "telemetry_event"),
    review=(
        "Trusted by its authors. Scripts set their own search_path; SECURITY DEFINER functions have a fixed "
        "one. Jobs run as their owners. Telemetry is off; a tenant who switches it on reaches one address of "
        "its authors."
    ),
)
