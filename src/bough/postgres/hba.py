"""pg_hba.conf and pg_ident.conf: who may enter a compute by its socket.

Control's user may be any role; the gateway's user may be any role but ours. Nobody else gets in, not
even the user the compute runs as. That control may also be a tenant's role gives it nothing: it can
become the gateway's user whenever it likes.
"""

from collections.abc import Iterable

from bough.postgres import ADMIN, RESERVED_PREFIX

MAP = "bough"
NAMES_EVERY_ROLE_BEFORE = 16  # from then on the map knows a pattern for the database's side


def hba_text() -> str:
    return f"local all all peer map={MAP}\n"


def ident_text(*, major: int, control_user: str, gateway_user: str, roles: Iterable[str]) -> str:
    tenants = list(roles) if major < NAMES_EVERY_ROLE_BEFORE else [f"/^(?!{RESERVED_PREFIX}).*$"]
    users = dict.fromkeys((gateway_user, control_user))  # once, when they are the same
    lines = [(control_user, ADMIN), *((user, role) for user in users for role in tenants)]
    return "".join(f"{MAP} {_quoted(system)} {_quoted(role)}\n" for system, role in lines)


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
