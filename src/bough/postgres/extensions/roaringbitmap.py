"""roaringbitmap: compressed bitmaps."""

from bough.postgres.extensions.extension import Extension

ROARINGBITMAP = Extension(
    name="roaringbitmap",
    summary="compressed bitmaps",
    package="postgresql-{major}-roaringbitmap",
    majors=frozenset({17, 18}),
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
