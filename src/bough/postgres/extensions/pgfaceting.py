"""pgfaceting: counts for faceted search."""

from bough.postgres.extensions.extension import Extension

PGFACETING = Extension(
    name="pgfaceting",
    summary="counts for faceted search",
    package="postgresql-{major}-pgfaceting",
    majors=frozenset({17, 18}),
    requires=("roaringbitmap",),
    needs_superuser=False,
    review="SQL and PL/pgSQL only; its scripts run as the role that creates it, which owns all its objects.",
)
