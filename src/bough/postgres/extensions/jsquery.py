"""jsquery: a query language for jsonb with indexes."""

from bough.postgres.extensions.extension import Extension

JSQUERY = Extension(
    name="jsquery",
    summary="a query language for jsonb with indexes",
    package="postgresql-{major}-jsquery",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
