"""Splits SQL into statements and tokens, to tell keywords from quoted text.

The rules are those of Postgres's scanner (scan.l) with `standard_conforming_strings` on, and psql's for the end of a
statement. Any input is accepted: an unterminated token extends to the end. The time is linear in the length.

The first character of a token shows its kind. A letter begins a word, in lower case; `"` a quoted name and `'` a
literal, as written; `$` a dollar-quoted literal or a parameter; a digit a number. Every other character is a token of
its own. Comments are skipped. Each byte is represented by the Latin-1 character, for any encoding.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""
    (?P<open> e' | \$ (?: [a-z_\x80-\xff] [a-z0-9_\x80-\xff]* )? \$ | /\* )
  | (?P<word> [a-z_\x80-\xff] [a-z0-9_$\x80-\xff]* )
  | (?P<whole> '[^']*'(?!') | "[^"]*"(?!") | [$]?[0-9]+ )
  | (?P<comment> --[^\n\r]* )
  | (?P<quote> ['"] )  # with a doubled quote inside, or unterminated
  | (?P<sign> [^ \t\n\r\f\v] )
    """,
    re.VERBOSE,
)
_LINE_COMMENT = re.compile(r"--[^\n\r]*")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_SPACE = " \t\n\r\f\v"
_TRUE = frozenset(["true", "1", "'1'", "'t'", "'true'", "'y'", "'yes'", "'on'"])
_MAX_NAME_BYTES = 63
_UTF8_CONTINUATION = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))
_NESTING = frozenset(["(", ")", "atomic", "case", "end"])


def split_statements(text: bytes) -> list[list[str]]:
    """Return the statements that are not empty. Semicolons inside rules and BEGIN ATOMIC bodies do not end one."""
    found: list[list[str]] = []
    statement: list[str] = []
    parentheses = blocks = 0
    for token in tokenize(text):
        if token == ";" and not parentheses and not blocks:
            if statement:
                found.append(statement)
            statement = []
            continue
        if token in _NESTING:
            if token == "(":
                parentheses += 1
            elif token == ")":
                parentheses = max(parentheses - 1, 0)
            elif token == "atomic":
                blocks += statement[:1] == ["create"] and statement[-1] == "begin"
            elif blocks:
                blocks += 1 if token == "case" else -1
        statement.append(token)
    return [*found, statement] if statement else found


def tokenize(text: bytes) -> Iterator[str]:
    written, low = text.decode("latin-1"), text.lower().decode("latin-1")
    at = escaped = 0  # `escaped`: the end of the last literal with backslashes, until the next literal
    while at < len(low):
        for found in _TOKEN.finditer(low, at):
            kind, start, at = found.lastgroup, *found.span()
            if kind in ("word", "sign"):
                yield found.group()
                continue
            if kind == "comment":
                continue
            if low[start] == "'" and escaped:
                if _is_continuation(low[escaped:start]):
                    kind, at = "open", start + 1
                escaped = 0
            if kind == "whole":
                yield written[start:at]
                continue
            if low[at - 1] == "*":
                at = _comment_end(low, at)
            elif kind == "quote":
                at = _quote_end(low, at)
                yield written[start:at]
            elif low[at - 1] == "'":
                at = escaped = _escaped_end(low, at)
                yield written[start:at].lstrip("eE")
            else:
                tag = written[start:at]
                end = written.find(tag, at)
                at = end + len(tag) if end >= 0 else len(low)
                yield written[start:at]
            break
        else:
            return


def is_identifier(token: str) -> bool:
    return token[0] in '"_' or token[0].isalpha() or token[0] >= "\x80"


def unquote_identifier(token: str) -> str:
    """Return the identifier that a word or quoted name means; any other token unchanged."""
    return token[1:-1].replace('""', '"') if token[0] == '"' else token


def truncate_identifier(token: str) -> bytes:
    """Truncate a name as Postgres does, at a UTF-8 character boundary."""
    name = unquote_identifier(token).encode("latin-1")
    ends = range(_MAX_NAME_BYTES, _MAX_NAME_BYTES - 4, -1)
    length = next((end for end in ends if name[end : end + 1] not in _UTF8_CONTINUATION), _MAX_NAME_BYTES)
    return name[:length]


@dataclass(slots=True)
class FunctionCall:
    """A name before a parenthesis, including what only looks like a call, as in `INSERT INTO t (…)`."""

    schema: str
    function: str
    commas: int = 0
    first_argument: list[str] = field(default_factory=list)  # the tokens before the first comma, if there is one
    last_argument: list[str] = field(default_factory=list)  # the tokens after the last comma

    def first_literal(self) -> str:
        """Return the value of the first argument if it is a plain literal, or else an empty string."""
        is_plain = (
            len(self.first_argument) == 1 and self.first_argument[0][0] == "'" and "\\" not in self.first_argument[0]
        )
        return self.first_argument[0][1:-1] if is_plain else ""

    def is_last_argument_true(self) -> bool:
        """Whether the last argument is a literal for true, such as `true` or `'t'::bool`."""
        value, cast = "".join(self.last_argument[:1]), "".join(self.last_argument[1:])
        return value.lower() in _TRUE and cast in ("", "::bool", "::boolean")


def find_calls(statement: list[str]) -> Iterator[FunctionCall]:
    """Yield each call when it ends, and unterminated calls last."""
    opened: list[FunctionCall] = []
    for at, token in enumerate(statement):
        if token == "(":
            function = unquote_identifier(statement[at - 1]) if at else ""
            schema = unquote_identifier(statement[at - 3]) if at > 2 and statement[at - 2] == "." else ""
            opened.append(FunctionCall(schema, function))
            continue
        if token == ")" and opened:
            yield opened.pop()
        if opened and token == ",":
            call = opened[-1]
            call.first_argument = call.first_argument if call.commas else call.last_argument
            call.commas, call.last_argument = call.commas + 1, []
        elif opened:
            opened[-1].last_argument.append(token)
    yield from opened


def _quote_end(text: str, at: int) -> int:
    quote = text[at - 1]
    while (end := text.find(quote, at)) >= 0:
        if text[end + 1 : end + 2] != quote:
            return end + 1
        at = end + 2
    return len(text)


def _escaped_end(text: str, at: int) -> int:
    """Find the end of a literal with backslashes: an odd number of them escapes a quote."""
    while (end := text.find("'", at)) >= 0:
        inside = text[at:end]
        if (len(inside) - len(inside.rstrip("\\"))) % 2:
            at = end + 1
        elif text[end + 1 : end + 2] == "'":
            at = end + 2
        else:
            return end + 1
    return len(text)


def _comment_end(text: str, at: int) -> int:
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge.group() == "/*" else -1
        if not depth:
            return edge.end()
    return len(text)


def _is_continuation(gap: str) -> bool:
    """Whether a literal continues in the next quotes: only white space with a newline is between them."""
    space = _LINE_COMMENT.sub("", gap)
    return not space.strip(_SPACE) and ("\n" in space or "\r" in space)
