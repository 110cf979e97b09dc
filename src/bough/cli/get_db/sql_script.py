"""The text of a seed: splits it into statements and locates positions in it. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_MAX_SHOWN_LENGTH = 160  # characters of a line
_TRANSACTION_END = re.compile(r"(?:commit|end|rollback|abort|prepare\s+transaction)\b", re.IGNORECASE)
_COPY_FROM_STDIN = re.compile(r"copy\b[^;']*?\bfrom\s+stdin\b", re.IGNORECASE)
# Tokens that contain or are a semicolon, and words; everything else is skipped.
_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\* )
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
    """Return the line that contains a position; Postgres counts positions in characters from 1."""
    line = script.count("\n", 0, position - 1)
    text = script.split("\n")[line].strip()
    return ScriptLine(line + 1, text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[:_MAX_SHOWN_LENGTH]}…")


def split_statements(script: str) -> Iterator[tuple[int, str]]:
    """Yield each statement with the position of its first character, split as psql does."""
    start, nesting, position = None, _Nesting(), 0
    while (match := _TOKEN.search(script, position)) is not None:
        position = match.end()
        if match["comment"]:
            position = _find_comment_end(script, match)
        elif match["end"] and not nesting:
            if start is not None:
                yield start + 1, script[start : match.end()]
            start = None
        else:
            start = match.start() if start is None else start
            nesting.update(match)
    if start is not None:
        yield start + 1, script[start:]


class _Nesting:
    """Whether a semicolon is part of its statement: in parentheses or in the body of an SQL function."""

    def __init__(self) -> None:
        self._parentheses = 0
        self._bodies = 0
        self._word = ""

    def __bool__(self) -> bool:
        return bool(self._parentheses or self._bodies)

    def update(self, match: re.Match[str]) -> None:
        word = (match["word"] or "").lower()
        self._parentheses = max(self._parentheses + bool(match["open"]) - bool(match["close"]), 0)
        if self._bodies:
            self._bodies += (word == "case") - (word == "end")
        elif (self._word, word) == ("begin", "atomic"):
            self._bodies = 1
        self._word = word


def has_transaction_end(script: str) -> bool:
    """Whether a part of the script may be committed when the rest fails."""
    return any(_TRANSACTION_END.match(statement) for _, statement in split_statements(script))


def find_copy_from_stdin(script: str) -> int | None:
    """Return the first line that only psql can execute, because psql sends the following lines as data."""
    positions = (position for position, statement in split_statements(script) if _COPY_FROM_STDIN.match(statement))
    return next((locate(script, position).line for position in positions), None)


def _find_comment_end(script: str, match: re.Match[str]) -> int:
    if match["comment"] != "/*":
        return match.end()
    depth, position = 1, match.end()
    while depth and (mark := re.compile(r"/\*|\*/").search(script, position)):
        depth += 1 if mark[0] == "/*" else -1
        position = mark.end()
    return position if depth == 0 else len(script)
