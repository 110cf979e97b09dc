"""Commands on a replication connection: logical replication is allowed, physical replication is not.

The grammar is that of Postgres's walsender (src/backend/replication/repl_gram.y): a command that does not begin
with one of its keywords is SQL. Physical replication would copy the whole cluster and bypass the plan's limits.
"""

import re
from enum import Enum

from bough.domain.output_plugins import OUTPUT_PLUGINS
from bough.gateway.wire.messages import ErrorResponse

_OUTPUT_PLUGINS = frozenset(name.encode() for name in OUTPUT_PLUGINS)
MAX_INSPECTED_BYTES = 8192  # replication commands are shorter

# The tokens of the walsender: a quoted name, a name or keyword, or any other character.
_TOKEN = re.compile(
    rb"""[ \t\n\r\f\v]*("(?:[^"]|"")*"|[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*|[^ \t\n\r\f\v])""", re.DOTALL
)
_MAX_TOKENS = 5  # that determine what a command does
_PHYSICAL_ONLY = frozenset((b"BASE_BACKUP", b"TIMELINE_HISTORY", b"READ_REPLICATION_SLOT", b"UPLOAD_MANIFEST"))
_START, _CREATE = b"START_REPLICATION", b"CREATE_REPLICATION_SLOT"
_COMMANDS = frozenset((_START, _CREATE))

_HINT = "Logical replication works: connect to the direct host with replication=database and use a logical slot."
PHYSICAL_REPLICATION_UNSUPPORTED = ErrorResponse(
    sqlstate="0A000", message="physical replication is not supported here", hint=_HINT
)
UNREADABLE_COMMAND = ErrorResponse(
    sqlstate="0A000",
    message=f"a replication command cannot be parsed within its first {MAX_INSPECTED_BYTES} bytes",
    hint=_HINT,
)


class ReplicationMode(Enum):
    """What the startup parameter `replication` requests."""

    NONE = "none"
    LOGICAL = "logical"
    PHYSICAL = "physical"


_FALSE = re.compile(r"|0|no?|off?|f(?:a(?:l(?:se?)?)?)?", re.IGNORECASE)


def parse_replication_mode(parameter: str) -> ReplicationMode:
    """Postgres compares `database` exactly and reads everything else as a boolean."""
    if parameter == "database":
        return ReplicationMode.LOGICAL
    return ReplicationMode.NONE if _FALSE.fullmatch(parameter) else ReplicationMode.PHYSICAL


def find_command_error(query: bytes, *, is_whole: bool) -> ErrorResponse | None:
    """Return why a command is rejected, if it is; `query` is its text up to MAX_INSPECTED_BYTES."""
    tokens, is_truncated = _tokenize(query.partition(b"\0")[0], is_whole)
    if not tokens:
        return UNREADABLE_COMMAND if is_truncated else None  # a command may follow after white space
    command = tokens[0].upper()
    if command in _PHYSICAL_ONLY:
        return PHYSICAL_REPLICATION_UNSUPPORTED
    if is_truncated:
        return UNREADABLE_COMMAND
    if command == _START:
        is_logical = len(tokens) > 3 and tokens[1].upper() == b"SLOT" and tokens[3].upper() == b"LOGICAL"
        return None if is_logical else PHYSICAL_REPLICATION_UNSUPPORTED
    return _check_slot(tokens[2:]) if command == _CREATE else None


def _tokenize(query: bytes, is_whole: bool) -> tuple[list[bytes], bool]:
    """Return the first tokens, and whether the last one may continue after the inspected bytes."""
    found: list[bytes] = []
    at = 0
    while len(found) < _MAX_TOKENS and (token := _TOKEN.match(query, at)) is not None:
        found.append(token[1])
        at = token.end()
        if found[0].upper() not in _COMMANDS:
            return found, not is_whole and at == len(query)
    return found, not is_whole and (len(found) < _MAX_TOKENS or at == len(query))


def _check_slot(after_name: list[bytes]) -> ErrorResponse | None:
    if after_name and after_name[0].upper() == b"TEMPORARY":
        after_name = after_name[1:]
    if len(after_name) < 2 or after_name[0].upper() != b"LOGICAL":
        return PHYSICAL_REPLICATION_UNSUPPORTED
    plugin = after_name[1]
    plugin = plugin[1:-1] if plugin.startswith(b'"') else plugin.lower()
    return None if plugin in _OUTPUT_PLUGINS else _unsupported_plugin_error(plugin)


def _unsupported_plugin_error(plugin: bytes) -> ErrorResponse:
    return ErrorResponse(
        sqlstate="0A000",
        message=f'the output plugin "{plugin[:100].decode(errors="replace")}" is not available here',
        hint=f"Use one of {', '.join(OUTPUT_PLUGINS)}.",
    )
