"""tdigest: estimates of percentiles."""

from bough.postgres.extensions.extension import Extension

TDIGEST = Extension(
    name="tdigest",
    summary="estimates of percentiles",
    package="postgresql-{major}-tdigest",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
