"""pg_rational: fractions, such as for the order of lists."""

from bough.postgres.extensions.extension import Extension

PG_RATIONAL = Extension(
    name="pg_rational",
    summary="fractions, such as for the order of lists",
    package="postgresql-{major}-rational",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
