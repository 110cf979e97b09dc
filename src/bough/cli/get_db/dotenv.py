"""The text of an environment file: parses its variables and inserts our block.

It works on bytes and preserves everything that is not ours, including line endings, quotes and encoding.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
CLAIM_URL_SUFFIX = "INSTANT_CLAIM_URL"
_EXPIRES, _CLAIM_IT = "# Expires at: ", "# Claim it at: "
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BREAK = rb"(?:\r\n|\n|\r|\Z)"
_LINE = re.compile(rb"[^\r\n]*" + _BREAK)
# Matches `export NAME = "a value of
# several lines"  # and a comment`. A quote counts only if the line ends after the closing quote.
_ENTRY = re.compile(
    rb"[ \t]*(?P<export>export[ \t]+)?(?P<name>[\w.-]+)(?:[ \t]*=|:[ \t])[ \t]*"
    rb"(?:(?P<quote>[\"'`])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)[ \t]*(?:#[^\r\n]*)?"
    + _BREAK
    + rb"|(?P<plain>[^\r\n]*)"
    + _BREAK
    + rb")",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class VariableNames:
    """The names of our three variables."""

    key: str
    prefix: str

    @property
    def direct(self) -> str:
        return f"{self.key}_DIRECT"

    @property
    def claim_url(self) -> str:
        return self.prefix + CLAIM_URL_SUFFIX

    @property
    def all_names(self) -> tuple[str, str, str]:
        return self.key, self.direct, self.claim_url


@dataclass(frozen=True, slots=True)
class EnvBlock:
    """What we add to the file: two comments, and variables whose values need no quotes."""

    comments: tuple[str, str]
    variables: Mapping[str, str]

    def lines(self, exported: Collection[str] = ()) -> list[str]:
        """Quote exported variables, because a shell reads them and interprets the `&` of a URL."""
        assignments = (
            f"export {name}='{value}'" if name in exported else f"{name}={value}"
            for name, value in self.variables.items()
        )
        return [*self.comments, *assignments]


@dataclass(frozen=True, slots=True)
class _Piece:
    """An assignment, or any other line."""

    text: bytes
    name: str = ""
    value: str = ""
    exported: bool = False


def parse_variables(content: bytes) -> dict[str, str]:
    """Return variable → value; the last assignment wins, as it does for other readers of the file."""
    return {piece.name: piece.value for piece in _split(content) if piece.name}


def make_block(names: VariableNames, *, pooled: str, direct: str, claim_url: str, expires_at: datetime) -> EnvBlock:
    comments = (_EXPIRES + format_http_date(expires_at), _CLAIM_IT + claim_url)
    return EnvBlock(comments, dict(zip(names.all_names, (pooled, direct, claim_url), strict=True)))


def format_http_date(timestamp: datetime) -> str:
    return format_datetime(timestamp.astimezone(UTC), usegmt=True)


def insert_block(content: bytes, block: EnvBlock) -> bytes:
    """Insert the block in place of the first of its variables or at the end; remove an older block of ours."""
    pieces = list(_split(content))
    old = [number for number, piece in enumerate(pieces) if piece.name in block.variables]
    newline = _find_newline(content)
    exported = {pieces[number].name for number in old if pieces[number].exported}
    text = b"".join(line.encode() + newline for line in block.lines(exported))
    if not old:
        separator = b"" if not content or content.endswith((b"\n", b"\r")) else newline
        return content + separator + text
    removed = {*old, *(above for number in old for above in _our_comments(pieces, number))}
    return b"".join(
        (text if number == old[0] else b"") + (b"" if number in removed else piece.text)
        for number, piece in enumerate(pieces)
    )


def _split(content: bytes) -> Iterator[_Piece]:
    position = 0
    if content.startswith(_BYTE_ORDER_MARK):
        position = len(_BYTE_ORDER_MARK)
        yield _Piece(_BYTE_ORDER_MARK)
    while position < len(content):
        match = _ENTRY.match(content, position)
        if match is not None:
            yield _Piece(match[0], match["name"].decode(), _parse_value(match), match["export"] is not None)
        else:
            match = _LINE.match(content, position)
            assert match is not None
            yield _Piece(match[0])
        position = match.end()


def _parse_value(match: re.Match[bytes]) -> str:
    quoted: bytes | None = match["quoted"]
    value = match["plain"].partition(b"#")[0].strip() if quoted is None else quoted
    return value.decode(errors="replace")


def _our_comments(pieces: Sequence[_Piece], number: int) -> Iterator[int]:
    """Return the positions of our comment lines directly above this piece."""
    for start in (_CLAIM_IT, _EXPIRES):
        if number and pieces[number - 1].text.startswith(start.encode()):
            number -= 1
            yield number


def _find_newline(content: bytes) -> bytes:
    match = re.search(rb"\r\n|\n|\r", content)
    return match[0] if match else b"\n"
