"""The text of an environment file: which variables it sets, and the same text with our block in it.

Bytes in, bytes out: whatever is not ours comes out as it went in, with its line ends, quotes and encoding.
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
# `export NAME = "a value of
# several lines"  # and a remark`: a quote counts only when the line ends after its partner.
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
    """What our three variables are called."""

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
    """What the file gets: two remarks, and variables whose values mean themselves without quotes."""

    comments: tuple[str, str]
    variables: Mapping[str, str]

    def lines(self, exported: Collection[str] = ()) -> list[str]:
        """An exported variable is for a shell, to which the `&` of a URL means something."""
        settings = (
            f"export {name}='{value}'" if name in exported else f"{name}={value}"
            for name, value in self.variables.items()
        )
        return [*self.comments, *settings]


@dataclass(frozen=True, slots=True)
class _Piece:
    """An assignment, or a line that is none."""

    text: bytes
    name: str = ""
    value: str = ""
    exported: bool = False


def parse_variables(content: bytes) -> dict[str, str]:
    """Variable → value; the last one counts, as it does for whoever reads the file."""
    return {piece.name: piece.value for piece in _pieces(content) if piece.name}


def make_block(names: VariableNames, *, pooled: str, direct: str, claim_url: str, expires_at: datetime) -> EnvBlock:
    remarks = (_EXPIRES + format_http_date(expires_at), _CLAIM_IT + claim_url)
    return EnvBlock(remarks, dict(zip(names.all_names, (pooled, direct, claim_url), strict=True)))


def format_http_date(moment: datetime) -> str:
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def insert_block(content: bytes, added: EnvBlock) -> bytes:
    """The block stands where the first of its variables stood, or at the end; an older block of ours goes."""
    pieces = list(_pieces(content))
    old = [number for number, piece in enumerate(pieces) if piece.name in added.variables]
    ending = _line_end(content)
    exported = {pieces[number].name for number in old if pieces[number].exported}
    text = b"".join(line.encode() + ending for line in added.lines(exported))
    if not old:
        between = b"" if not content or content.endswith((b"\n", b"\r")) else ending
        return content + between + text
    dropped = {*old, *(above for number in old for above in _our_comments(pieces, number))}
    return b"".join(
        (text if number == old[0] else b"") + (b"" if number in dropped else piece.text)
        for number, piece in enumerate(pieces)
    )


def _pieces(content: bytes) -> Iterator[_Piece]:
    at = 0
    if content.startswith(_BYTE_ORDER_MARK):
        at = len(_BYTE_ORDER_MARK)
        yield _Piece(_BYTE_ORDER_MARK)
    while at < len(content):
        found = _ENTRY.match(content, at)
        if found is not None:
            yield _Piece(found[0], found["name"].decode(), _value(found), found["export"] is not None)
        else:
            found = _LINE.match(content, at)
            assert found is not None
            yield _Piece(found[0])
        at = found.end()


def _value(found: re.Match[bytes]) -> str:
    quoted: bytes | None = found["quoted"]
    value = found["plain"].partition(b"#")[0].strip() if quoted is None else quoted
    return value.decode(errors="replace")


def _our_comments(pieces: Sequence[_Piece], number: int) -> Iterator[int]:
    """Those of our two lines that stand directly above."""
    for start in (_CLAIM_IT, _EXPIRES):
        if number and pieces[number - 1].text.startswith(start.encode()):
            number -= 1
            yield number


def _line_end(content: bytes) -> bytes:
    found = re.search(rb"\r\n|\n|\r", content)
    return found[0] if found else b"\n"
