"""pg_permissions: compares the permissions of roles with the desired ones."""

from bough.postgres.extensions.extension import Extension

PG_PERMISSIONS = Extension(
    name="pg_permissions",
    summary="compares permissions with the desired ones",
    package="postgresql-{major}-pg-permissions",
    majors=frozenset({17, 18}),
    needs_superuser=False,
    review="Views and a trigger in PL/pgSQL that run as the role that creates them.",
)
