"""pg_uuidv7: UUIDs of version 7."""

from bough.postgres.extensions.extension import Extension

PG_UUIDV7 = Extension(
    name="pg_uuidv7",
    summary="UUIDs of version 7",
    package="postgresql-{major}-pg-uuidv7",
    majors=frozenset({18}),
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
