"""Where a client wants to go: from the host it called, or from an option when it named none."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bough.errors import Invalid
from bough.gateway.wire import replication
from bough.gateway.wire.libpq_options import LIBPQ_OPTIONS
from bough.ids import EndpointId

_ENDPOINT = "ep-"
_TAKEN = LIBPQ_OPTIONS | {"user", "database", "options"}  # meant for us, or for the client itself
_POOLED = "-pooler"
_NAME_BYTES = 63  # Postgres cuts longer names there
_WORD = re.compile(r"(?:\\.|[^\\ \t\n\v\f\r])+", re.DOTALL)  # as Postgres splits its options
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NAMED = re.compile(r"(?:--|-c)?(?:endpoint|project)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTarget:
    role: str
    database: str
    parameters: Mapping[str, str]  # what else Postgres is told
    endpoint: EndpointId | None  # None: the password will say
    is_pooled: bool

    @property
    def replication_mode(self) -> replication.ReplicationMode:
        return replication.parse_replication_mode(self.parameters.get("replication", ""))


def resolve_target(host: str | None, domain: str, parameters: Mapping[str, str]) -> ConnectionTarget:
    role = _name(parameters.get("user", ""))
    if not role:
        raise Invalid("The startup packet names no user.")
    option, options = _without_endpoint(parameters.get("options", ""))
    rest = {name: value for name, value in parameters.items() if name not in _TAKEN}
    if options:
        rest["options"] = options
    named = parse_endpoint_name(option) if option is not None else None
    called = _parse_host(host, domain) if host else None
    if named and called and named[0] != called[0]:
        raise Invalid(f"The host names the endpoint {called[0]} and the options name {named[0]}.")
    endpoint, pooled = called or named or (None, False)
    return ConnectionTarget(
        role=role,
        database=_name(parameters.get("database", "")) or role,
        parameters=rest,
        endpoint=endpoint,
        is_pooled=pooled,
    )


def _name(text: str) -> str:
    try:
        return text.encode()[:_NAME_BYTES].decode(errors="ignore")
    except UnicodeEncodeError:
        raise Invalid("The names of the user and of the database must be UTF-8.") from None


def _parse_host(host: str, domain: str) -> tuple[EndpointId, bool] | None:
    """`ep-….<region>.<cloud>.<domain>`; None for the door itself, an address or another's name."""
    label, _, rest = host.lower().removesuffix(".").partition(".")
    if not label.startswith(_ENDPOINT) or not f".{rest}".endswith(f".{domain.lower()}"):
        return None
    return parse_endpoint_name(label)


def parse_endpoint_name(name: str) -> tuple[EndpointId, bool]:
    """Which endpoint, and whether it is the pooled one."""
    return EndpointId.parse(name.removesuffix(_POOLED)), name.endswith(_POOLED)


def _without_endpoint(options: str) -> tuple[str | None, str]:
    """What the options call the endpoint, and the options that are meant for Postgres."""
    named: list[str] = []
    kept: list[str] = []
    for word in _WORD.findall(options):
        found = _NAMED.fullmatch(_ESCAPED.sub(r"\1", word))
        if found is None:
            kept.append(word)
            continue
        named.append(found[1])
        if kept and kept[-1] == "-c":  # it belonged to this word
            kept.pop()
    if not named:
        return None, options
    if len(set(named)) > 1:
        raise Invalid("The options name more than one endpoint.")
    return named[0], " ".join(kept)
