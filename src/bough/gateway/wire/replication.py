"""Commands on a replication connection: logical replication is allowed, physical replication is not.

The grammar is that of Postgres's walsender (src/backend/replication/repl_gram.y): what does not begin with
one of its keywords is SQL. Physical replication would copy the whole cluster past every limit of the plan.
"""

import re
from enum import Enum

from bough.gateway.wire.messages import ErrorResponse

OUTPUT_PLUGINS = frozenset((b"pgoutput", b"test_decoding"))  # those that `bough.postgres.output_plugins` allows by SQL
MAX_INSPECTED_BYTES = 8192  # bytes of a query; a replication command is shorter

# As the walsender cuts its commands: a quoted name, a name or a keyword, anything else by itself.
_TOKEN = re.compile(
    rb"""[ \t\n\r\f\v]*("(?:[^"]|"")*"|[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*|[^ \t\n\r\f\v])""", re.DOTALL
)
_LONGEST = 5  # tokens that tell what a command does
_PHYSICAL_ONLY = frozenset((b"BASE_BACKUP", b"TIMELINE_HISTORY", b"READ_REPLICATION_SLOT", b"UPLOAD_MANIFEST"))
_START, _CREATE = b"START_REPLICATION", b"CREATE_REPLICATION_SLOT"
_COMMANDS = frozenset((_START, _CREATE))

_HINT = "Logical replication works: connect to the direct host with replication=database and use a logical slot."
PHYSICAL_REPLICATION_UNSUPPORTED = ErrorResponse(
    sqlstate="0A000", message="physical replication is not supported here", hint=_HINT
)
UNREADABLE_COMMAND = ErrorResponse(
    sqlstate="0A000",
    message=f"a replication command is not readable in its first {MAX_INSPECTED_BYTES} bytes",
    hint=_HINT,
)


class ReplicationMode(Enum):
    """What the parameter `replication` of a startup packet asks for."""

    NONE = "none"
    LOGICAL = "logical"
    PHYSICAL = "physical"


_NO = re.compile(r"|0|no?|off?|f(?:a(?:l(?:se?)?)?)?", re.IGNORECASE)


def parse_replication_mode(parameter: str) -> ReplicationMode:
    """Postgres compares `database` exactly and reads everything else as a boolean."""
    if parameter == "database":
        return ReplicationMode.LOGICAL
    return ReplicationMode.NONE if _NO.fullmatch(parameter) else ReplicationMode.PHYSICAL


def find_command_error(query: bytes, *, is_whole: bool) -> ErrorResponse | None:
    """Why a query is refused; `query` is its text up to LOOKED_AT bytes."""
    tokens, is_cut = _tokens(query.partition(b"\0")[0], is_whole)
    if not tokens:
        return UNREADABLE_COMMAND if is_cut else None  # a command may follow so many blanks
    word = tokens[0].upper()
    if word in _PHYSICAL_ONLY:
        return PHYSICAL_REPLICATION_UNSUPPORTED
    if is_cut:
        return UNREADABLE_COMMAND
    if word == _START:
        is_logical = len(tokens) > 3 and tokens[1].upper() == b"SLOT" and tokens[3].upper() == b"LOGICAL"
        return None if is_logical else PHYSICAL_REPLICATION_UNSUPPORTED
    return _check_slot(tokens[2:]) if word == _CREATE else None


def _tokens(query: bytes, is_whole: bool) -> tuple[list[bytes], bool]:
    """The first ones, and whether the last of them may go on behind what was looked at."""
    found: list[bytes] = []
    at = 0
    while len(found) < _LONGEST and (token := _TOKEN.match(query, at)) is not None:
        found.append(token[1])
        at = token.end()
        if found[0].upper() not in _COMMANDS:
            return found, not is_whole and at == len(query)
    return found, not is_whole and (len(found) < _LONGEST or at == len(query))


def _check_slot(behind_name: list[bytes]) -> ErrorResponse | None:
    if behind_name and behind_name[0].upper() == b"TEMPORARY":
        behind_name = behind_name[1:]
    if len(behind_name) < 2 or behind_name[0].upper() != b"LOGICAL":
        return PHYSICAL_REPLICATION_UNSUPPORTED
    plugin = behind_name[1]
    plugin = plugin[1:-1] if plugin.startswith(b'"') else plugin.lower()
    return None if plugin in OUTPUT_PLUGINS else _no_plugin(plugin)


def _no_plugin(plugin: bytes) -> ErrorResponse:
    return ErrorResponse(
        sqlstate="0A000",
        message=f'the output plugin "{plugin[:100].decode(errors="replace")}" is not offered here',
        hint=f"Use one of {', '.join(sorted(name.decode() for name in OUTPUT_PLUGINS))}.",
    )
