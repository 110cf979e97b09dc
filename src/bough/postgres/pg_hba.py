"""pg_hba.conf and pg_ident.conf: who may connect to a compute through its socket.

The user of the control process may log in as any role, the gateway's user as any role except the platform's. No other
user can log in, not even the user that runs the compute. The control process may log in as a tenant's role because it
could use the gateway's user anyway.

Read replicas run as the project's user, which has no name on the machine, so they use a password. Their line is the
only one that matches physical replication: `all` does not match it.
"""

from collections.abc import Iterable

from bough.postgres import ADMIN_ROLE, REPLICA_ROLE, RESERVED_PREFIX

HBA_FILE = "pg_hba.conf"
IDENT_FILE = "pg_ident.conf"
MAP = "bough"
ROLE_PATTERNS_SINCE = 16  # first version in which the map can match database roles with a pattern


def render_hba() -> str:
    return f"local replication {REPLICA_ROLE} scram-sha-256\nlocal all all peer map={MAP}\n"


def render_ident(*, major: int, control_user: str, gateway_user: str, roles: Iterable[str]) -> str:
    tenants = list(roles) if major < ROLE_PATTERNS_SINCE else [f"/^(?!{RESERVED_PREFIX}).*$"]
    ours = _line(control_user, ADMIN_ROLE)
    return ours + "".join(
        render_ident_lines(role, control_user=control_user, gateway_user=gateway_user) for role in tenants
    )


def render_ident_lines(role: str, *, control_user: str, gateway_user: str) -> str:
    """Return the lines that allow one more role, for versions in which the map lists every role."""
    users = dict.fromkeys((gateway_user, control_user))  # removes the duplicate if they are the same
    return "".join(_line(user, role) for user in users)


def _line(system: str, role: str) -> str:
    return f"{MAP} {_quoted(system)} {_quoted(role)}\n"


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
