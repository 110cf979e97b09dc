"""prefix: prefix ranges, such as of telephone numbers."""

from bough.postgres.extensions.extension import Extension

PREFIX = Extension(
    name="prefix",
    summary="prefix ranges, such as of telephone numbers",
    package="postgresql-{major}-prefix",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
