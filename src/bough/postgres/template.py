"""The template that every new project is cloned from. Its settings cannot be changed later."""

from bough.domain import database, role
from bough.postgres import ADMIN_ROLE, databases, roles, storage
from bough.postgres.wal import SEGMENT_MB

SPARE_ROLE = role.DEFAULT_NAME
SPARE_DATABASE = database.DEFAULT_NAME


def initdb_arguments(major: int) -> list[str]:
    locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if major >= 17 else []
    return [
        "--data-checksums",
        "--encoding=UTF8",
        "--locale=C",
        *locale,
        f"--username={ADMIN_ROLE}",
        f"--wal-segsize={SEGMENT_MB}",
        "--auth=reject",
        "--no-sync",
        "--no-instructions",
    ]


def setup_statements(major: int) -> list[str]:
    """Build the statements that create the group of tenants, and a spare role and database, in a new template."""
    return [
        roles.SET_ADMIN_PATH,
        *roles.group_statements(major),
        *roles.create(SPARE_ROLE, None, major),
        "revoke create on schema public from public",
        databases.create(SPARE_DATABASE, SPARE_ROLE),
        *storage.REVOKE_PUBLIC,
    ]
