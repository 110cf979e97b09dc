"""pg_sphere: geometry on a sphere."""

from bough.postgres.extensions.extension import Extension

PG_SPHERE = Extension(
    name="pg_sphere",
    summary="geometry on a sphere",
    package="postgresql-{major}-pgsphere",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
