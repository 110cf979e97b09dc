"""pg_hba.conf and pg_ident.conf: who may enter a compute by its socket.

The gateway's user may be any role but ours; control's user may be our superuser; nobody else
gets in, not even the user the compute runs as.
"""

from collections.abc import Iterable

from bough.postgres import ADMIN, RESERVED_PREFIX

MAP = "bough"


def hba_text() -> str:
    return f"local all all peer map={MAP}\n"


def ident_text(*, major: int, control_user: str, gateway_user: str, roles: Iterable[str]) -> str:
    lines = [(control_user, ADMIN)]
    if major >= 16:
        lines.append((gateway_user, f"/^(?!{RESERVED_PREFIX}).*$"))
    else:  # the map knows no pattern for the database's side there
        lines.extend((gateway_user, role) for role in roles)
    return "".join(f"{MAP} {_quoted(system)} {_quoted(role)}\n" for system, role in lines)


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'
