"""numeral: numbers as words and Roman numerals."""

from bough.postgres.extensions.extension import Extension

NUMERAL = Extension(
    name="numeral",
    summary="numbers as words and Roman numerals",
    package="postgresql-{major}-numeral",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
