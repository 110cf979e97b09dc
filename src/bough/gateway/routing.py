"""Finds the endpoint that a client wants: by the server name from SNI, or else by an option."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bough.errors import Invalid
from bough.gateway.wire import replication
from bough.ids import EndpointId

# Options of libpq connection strings that some drivers send as startup parameters. Postgres would reject the
# connection, because it has no settings with these names.
_LIBPQ_OPTIONS = """
    host hostaddr port dbname password passfile require_auth channel_binding connect_timeout
    fallback_application_name keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout
    gssencmode krbsrvname gsslib gssdelegation requirepeer service servicefile
    requiressl sslcompression sslmode sslnegotiation sslcert sslkey sslkeylogfile sslpassword sslcertmode sslrootcert
    sslcrl sslcrldir sslsni ssl_min_protocol_version ssl_max_protocol_version min_protocol_version
    max_protocol_version target_session_attrs load_balance_hosts scram_client_key scram_server_key
    oauth_issuer oauth_client_id oauth_client_secret oauth_scope
""".split()
_ENDPOINT_PREFIX = "ep-"
_NOT_FORWARDED = frozenset((*_LIBPQ_OPTIONS, "user", "database", "options"))
_POOLED_SUFFIX = "-pooler"
_MAX_NAME_BYTES = 63  # Postgres truncates longer names
_WORD = re.compile(r"(?:\\.|[^\\ \t\n\v\f\r])+", re.DOTALL)  # as Postgres splits the options
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ENDPOINT_OPTION = re.compile(r"(?:--|-c)?(?:endpoint|project)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTarget:
    role: str
    database: str
    parameters: Mapping[str, str]  # the other startup parameters for Postgres
    endpoint: EndpointId | None  # None: the password names it
    is_pooled: bool

    @property
    def replication_mode(self) -> replication.ReplicationMode:
        return replication.parse_replication_mode(self.parameters.get("replication", ""))


def resolve_target(host: str | None, domain: str, parameters: Mapping[str, str]) -> ConnectionTarget:
    role = _parse_name(parameters.get("user", ""))
    if not role:
        raise Invalid("The startup packet names no user.")
    option, options = _split_endpoint_option(parameters.get("options", ""))
    rest = {name: value for name, value in parameters.items() if name not in _NOT_FORWARDED}
    if options:
        rest["options"] = options
    by_option = parse_endpoint_name(option) if option is not None else None
    by_host = _parse_host(host, domain) if host else None
    if by_option and by_host and by_option[0] != by_host[0]:
        raise Invalid(f"The host names the endpoint {by_host[0]}, but the options name {by_option[0]}.")
    endpoint, is_pooled = by_host or by_option or (None, False)
    return ConnectionTarget(
        role=role,
        database=_parse_name(parameters.get("database", "")) or role,
        parameters=rest,
        endpoint=endpoint,
        is_pooled=is_pooled,
    )


def _parse_name(text: str) -> str:
    try:
        return text.encode()[:_MAX_NAME_BYTES].decode(errors="ignore")
    except UnicodeEncodeError:
        raise Invalid("The user name and the database name must be valid UTF-8.") from None


def _parse_host(host: str, domain: str) -> tuple[EndpointId, bool] | None:
    """Parse `ep-….<region>.<cloud>.<domain>`; None for an address or any other host name."""
    label, _, rest = host.lower().removesuffix(".").partition(".")
    if not label.startswith(_ENDPOINT_PREFIX) or not f".{rest}".endswith(f".{domain.lower()}"):
        return None
    return parse_endpoint_name(label)


def parse_endpoint_name(name: str) -> tuple[EndpointId, bool]:
    """Return the endpoint and whether the name has the `-pooler` suffix."""
    return EndpointId.parse(name.removesuffix(_POOLED_SUFFIX)), name.endswith(_POOLED_SUFFIX)


def _split_endpoint_option(options: str) -> tuple[str | None, str]:
    """Return the endpoint named in the options, and the options for Postgres."""
    names: list[str] = []
    kept: list[str] = []
    for word in _WORD.findall(options):
        found = _ENDPOINT_OPTION.fullmatch(_ESCAPED.sub(r"\1", word))
        if found is None:
            kept.append(word)
            continue
        names.append(found[1])
        if kept and kept[-1] == "-c":  # the flag of this option
            kept.pop()
    if not names:
        return None, options
    if len(set(names)) > 1:
        raise Invalid("The options name more than one endpoint.")
    return names[0], " ".join(kept)
