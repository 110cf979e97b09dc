"""Statements that make tenant roles so. Repeatable: they are planned from what is there."""

from collections.abc import Mapping

from bough.postgres import RESERVED_PREFIX, TENANTS
from bough.postgres.quoting import identifier, literal

# Read what is there; a role without a password has a null verifier. A role that may not log in
# counts too: its name is taken.
READ = "select 'role', pg_catalog.namesend(rolname), rolpassword::text from pg_catalog.pg_authid"

# Every role but ours that may log in. The name as bytes, because another database's encoding may have made it;
# moments that nobody lives to see, and those before us, are brought to where every clock can tell them.
LOGINS = f"""
    select pg_catalog.namesend(rolname), rolpassword::text,
           case when rolvaliduntil < '1970-01-01 00:00:00+00'::pg_catalog.timestamptz
                then '1970-01-01 00:00:00+00'::pg_catalog.timestamptz
                when rolvaliduntil < '9999-01-01 00:00:00+00'::pg_catalog.timestamptz then rolvaliduntil end
      from pg_catalog.pg_authid
     where rolcanlogin and not pg_catalog.starts_with(rolname::text, '{RESERVED_PREFIX}')
"""


def group_statements(major: int) -> list[str]:
    """The group that carries what tenants may do beyond their own objects."""
    granted = ["pg_monitor", "pg_read_all_data", "pg_write_all_data", "pg_signal_backend"]
    if major >= 16:
        granted.append("pg_create_subscription")
    if major >= 17:
        granted.append("pg_maintain")
    return [f"create role {TENANTS} nologin", f"grant {', '.join(granted)} to {TENANTS}"]


def attributes(major: int) -> str:
    """Attributes are never inherited, so each role carries them itself.

    Before 16 a role with CREATEROLE could grant itself membership of any group, server files
    and programs included, so there it is withheld.
    """
    createrole = "createrole" if major >= 16 else "nocreaterole"
    return f"login createdb {createrole} bypassrls replication"


def create(name: str, verifier: str | None, major: int) -> list[str]:
    password = f" password {literal(verifier)}" if verifier else ""
    return [
        f"create role {identifier(name)} {attributes(major)}{password}",
        f"grant {TENANTS} to {identifier(name)} with admin option",
    ]


def plan(wished: Mapping[str, str], present: Mapping[str, str | None], *, spare: str | None, major: int) -> list[str]:
    """Statements from the present roles to the wished ones (name → verifier).

    `spare` is the template's own role in a volume that nobody has used: the first missing role takes it over.
    """
    statements: list[str] = []
    if spare in wished or spare not in present:
        spare = None
    for name, verifier in wished.items():
        if name in present:
            if present[name] != verifier:
                statements.append(f"alter role {identifier(name)} password {literal(verifier)}")
        elif spare is not None:
            statements.append(f"alter role {identifier(spare)} rename to {identifier(name)}")
            statements.append(f"alter role {identifier(name)} password {literal(verifier)}")
            spare = None
        else:
            statements.extend(create(name, verifier, major))
    return statements
