"""h3: hexagonal cells on the globe."""

from bough.postgres.extensions.extension import Extension

H3 = Extension(
    name="h3",
    summary="hexagonal cells on the globe",
    package="postgresql-{major}-h3",
    majors=frozenset({17, 18}),
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
