"""hypopg: hypothetical indexes."""

from bough.postgres.extensions.extension import Extension

HYPOPG = Extension(
    name="hypopg",
    summary="indexes that exist only for EXPLAIN",
    package="postgresql-{major}-hypopg",
    is_in_default_build=True,
    review=(
        "Functions in C that keep hypothetical indexes in the memory of the session; they run with the rights "
        "of the caller."
    ),
)
