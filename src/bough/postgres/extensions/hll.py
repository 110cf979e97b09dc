"""hll: HyperLogLog, estimates of the number of distinct values."""

from bough.postgres.extensions.extension import Extension

HLL = Extension(
    name="hll",
    summary="estimates of distinct counts (HyperLogLog)",
    package="postgresql-{major}-hll",
    is_in_default_build=True,
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
