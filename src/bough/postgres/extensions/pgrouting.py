"""pgRouting: shortest paths and other graph algorithms."""

from bough.postgres.extensions.extension import Extension

PGROUTING = Extension(
    name="pgrouting",
    summary="shortest paths in road networks (pgRouting)",
    package="postgresql-{major}-pgrouting",
    requires=("postgis",),
    review=(
        "Functions in C run the queries that the caller passes with the rights of the caller; no SECURITY "
        "DEFINER, no files."
    ),
)
