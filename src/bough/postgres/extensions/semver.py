"""semver: semantic versions."""

from bough.postgres.extensions.extension import Extension

SEMVER = Extension(
    name="semver",
    summary="semantic versions",
    package="postgresql-{major}-semver",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
