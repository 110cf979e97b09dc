"""wal2json: an output plugin for logical decoding."""

from bough.postgres.extensions.extension import Extension

WAL2JSON = Extension(
    name="wal2json",
    summary="changes as JSON, for logical decoding",
    package="postgresql-{major}-wal2json",
    is_in_default_build=True,
    output_plugin="wal2json",
    review="An output plugin only: formats changes as text; its options name tables and columns, never files.",
)
