"""first_last_agg: the aggregates first and last."""

from bough.postgres.extensions.extension import Extension

FIRST_LAST_AGG = Extension(
    name="first_last_agg",
    summary="the aggregates first and last",
    package="postgresql-{major}-first-last-agg",
    majors=frozenset({15, 17}),
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
