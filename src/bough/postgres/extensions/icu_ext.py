"""icu_ext: functions of ICU."""

from bough.postgres.extensions.extension import Extension

ICU_EXT = Extension(
    name="icu_ext",
    summary="functions of ICU",
    package="postgresql-{major}-icu-ext",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
