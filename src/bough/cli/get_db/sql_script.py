"""The text of a seed: where its statements begin, and where a fault in it is. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SHOWN_AT_MOST = 160  # characters of a line
_OWN_END = re.compile(r"(?:commit|end|rollback|abort|prepare\s+transaction)\b", re.IGNORECASE)
_COPY_IN = re.compile(r"copy\b[^;']*?\bfrom\s+stdin\b", re.IGNORECASE)
# What hides a semicolon, or is one; anything else is passed over.
_TOKEN = re.compile(
    r"""
      (?P<remark> --[^\n]* | /\* )
    | (?<![\w$]) [eE] ' (?: \\. | '' | [^'\\] )* '
    | ' (?: '' | [^'] )* '
    | " (?: "" | [^"] )* "
    | (?<![\w$]) (?P<dollars> \$ (?:[^\W\d]\w*)? \$ ) .*? (?P=dollars)
    | (?<![\w$]) (?P<word> [^\W\d] [\w$]* )
    | (?P<open> \( ) | (?P<close> \) ) | (?P<end> ; )
    | \S
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class ScriptLine:
    line: int
    text: str


def locate(script: str, position: int) -> ScriptLine:
    """The line of a position, which Postgres counts in characters from one."""
    line = script.count("\n", 0, position - 1)
    text = script.split("\n")[line].strip()
    return ScriptLine(line + 1, text if len(text) <= _SHOWN_AT_MOST else f"{text[:_SHOWN_AT_MOST]}…")


def split_statements(script: str) -> Iterator[tuple[int, str]]:
    """Each statement and the position of its first character, cut as psql does it."""
    start, inside, position = None, _Inside(), 0
    while (found := _TOKEN.search(script, position)) is not None:
        position = found.end()
        if found["remark"]:
            position = _end_of_remark(script, found)
        elif found["end"] and not inside:
            if start is not None:
                yield start + 1, script[start : found.end()]
            start = None
        else:
            start = found.start() if start is None else start
            inside.see(found)
    if start is not None:
        yield start + 1, script[start:]


class _Inside:
    """Whether a semicolon is a part of its statement: in parentheses, or in the body of a function in plain SQL."""

    def __init__(self) -> None:
        self._parentheses = 0
        self._bodies = 0
        self._word = ""

    def __bool__(self) -> bool:
        return bool(self._parentheses or self._bodies)

    def see(self, found: re.Match[str]) -> None:
        word = (found["word"] or "").lower()
        self._parentheses = max(self._parentheses + bool(found["open"]) - bool(found["close"]), 0)
        if self._bodies:
            self._bodies += (word == "case") - (word == "end")
        elif (self._word, word) == ("begin", "atomic"):
            self._bodies = 1
        self._word = word


def has_transaction_end(script: str) -> bool:
    """Whether some of it may stay when the rest fails."""
    return any(_OWN_END.match(statement) for _, statement in split_statements(script))


def find_copy_from_stdin(script: str) -> int | None:
    """The first line that only psql can carry out, which sends the lines after it as data."""
    positions = (position for position, statement in split_statements(script) if _COPY_IN.match(statement))
    return next((locate(script, position).line for position in positions), None)


def _end_of_remark(script: str, found: re.Match[str]) -> int:
    if found["remark"] != "/*":
        return found.end()
    depth, position = 1, found.end()
    while depth and (sign := re.compile(r"/\*|\*/").search(script, position)):
        depth += 1 if sign[0] == "/*" else -1
        position = sign.end()
    return position if depth == 0 else len(script)
