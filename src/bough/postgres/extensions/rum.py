"""RUM: indexes for full-text search with ranking and distances."""

from bough.postgres.extensions.extension import Extension

RUM = Extension(
    name="rum",
    summary="full-text indexes that also rank (RUM)",
    package="postgresql-{major}-rum",
    is_in_default_build=True,
    review=(
        "An index access method with operator classes in C; support functions take internal arguments, which "
        "SQL cannot supply."
    ),
)
