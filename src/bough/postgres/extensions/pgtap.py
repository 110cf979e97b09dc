"""pgTAP: unit tests in SQL."""

from bough.postgres.extensions.extension import Extension

PGTAP = Extension(
    name="pgtap",
    summary="unit tests in SQL",
    package="postgresql-{major}-pgtap",
    is_in_default_build=True,
    needs_superuser=False,
    review="SQL and PL/pgSQL only; its scripts run as the role that creates it, which owns all its functions.",
)
