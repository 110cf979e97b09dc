"""pg_similarity: similarity of texts."""

from bough.postgres.extensions.extension import Extension

PG_SIMILARITY = Extension(
    name="pg_similarity",
    summary="similarity of texts",
    package="postgresql-{major}-similarity",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
