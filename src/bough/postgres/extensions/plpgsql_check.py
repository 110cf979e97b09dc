"""plpgsql_check: finds errors in PL/pgSQL functions without running them."""

from bough.postgres.extensions.extension import Extension

PLPGSQL_CHECK = Extension(
    name="plpgsql_check",
    summary="finds errors in PL/pgSQL functions",
    package="postgresql-{major}-plpgsql-check",
    is_in_default_build=True,
    review=(
        "Checks functions with the rights of the caller; the tracer is for superusers. Its library is not "
        "preloaded, so no other session runs its hooks."
    ),
)
