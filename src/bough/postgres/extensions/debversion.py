"""debversion: Debian's version numbers."""

from bough.postgres.extensions.extension import Extension

DEBVERSION = Extension(
    name="debversion",
    summary="Debian's version numbers",
    package="postgresql-{major}-debversion",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
