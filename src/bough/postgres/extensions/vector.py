"""pgvector: vectors, distances between them, and approximate nearest-neighbour indexes."""

from bough.postgres.extensions.extension import Extension

VECTOR = Extension(
    name="vector",
    summary="vectors with exact and approximate nearest-neighbour search (pgvector)",
    package="postgresql-{major}-pgvector",
    majors=frozenset({17, 18}),
    is_in_default_build=True,
    review=(
        "Defines types, operators and index access methods in C; no SECURITY DEFINER, no access to files. 0.8.0 "
        "has CVE-2026-3172, which docs/postgres.md describes."
    ),
)
