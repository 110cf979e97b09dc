"""pg_hba.conf and pg_ident.conf: who may enter a compute by its socket.

Control's user may be any role; the gateway's user may be any role but ours. Nobody else gets in, not
even the user the compute runs as. That control may also be a tenant's role gives it nothing: it can
become the gateway's user whenever it likes.

Read replicas run as the project's user, whom the machine has no name for, and so have a password. Theirs is the only
line that matches physical replication: `all` does not.
"""

from collections.abc import Iterable

from bough.postgres import ADMIN_ROLE, REPLICA_ROLE, RESERVED_PREFIX

HBA_FILE = "pg_hba.conf"
IDENT_FILE = "pg_ident.conf"
MAP = "bough"
ROLE_PATTERNS_SINCE = 16  # from then on the map knows a pattern for the database's side


def render_hba() -> str:
    return f"local replication {REPLICA_ROLE} scram-sha-256\nlocal all all peer map={MAP}\n"


def render_ident(*, major: int, control_user: str, gateway_user: str, roles: Iterable[str]) -> str:
    tenants = list(roles) if major < ROLE_PATTERNS_SINCE else [f"/^(?!{RESERVED_PREFIX}).*$"]
    ours = _line(control_user, ADMIN_ROLE)
    return ours + "".join(
        render_ident_lines(role, control_user=control_user, gateway_user=gateway_user) for role in tenants
    )


def render_ident_lines(role: str, *, control_user: str, gateway_user: str) -> str:
    """What lets one more role in, where the map names every one."""
    users = dict.fromkeys((gateway_user, control_user))  # once, when they are the same
    return "".join(_line(user, role) for user in users)


def _line(system: str, role: str) -> str:
    return f"{MAP} {_quoted(system)} {_quoted(role)}\n"


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
