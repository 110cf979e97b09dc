"""Migrates the schema at startup: finds its revision, backs up a SQLite store, and runs the migrations.

Alembic is imported only if a migration is due, to keep normal starts fast.
"""

import sqlite3
from pathlib import Path

import sqlalchemy as sa

from bough.errors import PreconditionFailed

_MIGRATIONS = Path(__file__).parent / "migrations"


def revisions() -> list[str]:
    """Return all revisions in order. Files are named `NNNN_what_it_does.py`, where NNNN is the revision."""
    return sorted(path.name.split("_", 1)[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"))


def upgrade(connection: sa.Connection, *, backup: Path | None, to: str | None = None) -> None:
    """Migrate to the revision `to`, by default the newest. `backup` is the SQLite file to copy first."""
    known = revisions()
    current = current_revision(connection)
    if current is not None and current not in known:
        raise PreconditionFailed(
            f"The store was written by a newer version of Bough (schema {current}; this version knows {known[-1]}). "
            "Start the newer version, or restore the backup that was made before the upgrade."
        )
    if current == (to or known[-1]):
        return
    if backup is not None and current is not None:
        _back_up(backup, current)
    _migrate(connection, to or known[-1])
    connection.commit()


def current_revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(sa.text("select version_num from alembic_version")).scalar()
    return revision


def _back_up(path: Path, revision: str) -> None:
    target = path.with_name(f"{path.name}.before-{revision}")
    with sqlite3.connect(path) as source, sqlite3.connect(target) as copy:
        source.backup(copy)
    target.chmod(0o600)


def _migrate(connection: sa.Connection, to: str) -> None:
    from alembic import command  # noqa: PLC0415  (see the module docstring)
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, to)
