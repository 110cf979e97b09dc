"""The files of statistics that a stopped server leaves in its data directory.

Those of pg_stat_statements contain texts of queries, and Postgres's own the number of rows of each table.
"""

from contextlib import suppress
from pathlib import Path

from bough.engine.local.tenant_files import list_names, open_folder, open_tenant_folder, unlink

_FOLDERS = ("pg_stat", "pg_stat_tmp")


def delete(data: Path) -> None:
    """Delete all of them before the next start of the server."""
    with open_tenant_folder(data) as root:
        for name in _FOLDERS:
            with suppress(FileNotFoundError), open_folder(name, root) as folder:
                for file in list_names(folder):
                    unlink(file, folder)
