"""extra_window_functions: more window functions."""

from bough.postgres.extensions.extension import Extension

EXTRA_WINDOW_FUNCTIONS = Extension(
    name="extra_window_functions",
    summary="more window functions",
    package="postgresql-{major}-extra-window-functions",
    review=(
        "Defines types, operators and functions in C that compute on their arguments; no SECURITY DEFINER, no "
        "files, no network."
    ),
)
