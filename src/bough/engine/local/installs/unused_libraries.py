"""Detach libraries from the server that a compute never uses, because loading them is a large part of its start.

Debian's server is linked with libraries for the authentication methods ldap, pam and gss. Computes only use those that
need no library (see `bough.postgres.pg_hba`). The server's undefined symbols of these libraries become weak, so they
need not be found, and the libraries are removed from the list of those to load. Other programs and libraries of the
tree, such as libpq, still use them.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

UNUSED = ("libldap.so.2", "libldap-2.5.so.0", "libpam.so.0", "libgssapi_krb5.so.2")

# elf.h, for 64-bit little-endian files
_MAGIC = b"\x7fELF\x02\x01"
_SECTION = struct.Struct("<4xI16xQQI20x")  # type, offset, size, link
_COUNT_OFFSET = 44  # in a section header: the number of entries, of a list of needed versions
_VERSIONS_NEEDED, _SYMBOLS, _SYMBOL_VERSIONS = 0x6FFFFFFE, 11, 0x6FFFFFFF
_NEEDED = struct.Struct("<HHIII")  # of a library: format, number of versions, name, offsets of versions and of the next
_VERSION = struct.Struct("<6xH4xI")  # number, offset of the next
_SYMBOL_BYTES = 24
_GLOBAL, _WEAK = 1, 2
_HIDDEN_BIT, _UNVERSIONED = 0x8000, 1


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    offset: int
    size: int
    link: int
    header: int  # offset of its header


@dataclass(frozen=True, slots=True)
class _NeededLibrary:
    """A library of which the program needs symbols with versions."""

    name: str
    offset: int  # of its entry
    fields: tuple[int, ...]
    versions: frozenset[int]

    @property
    def is_unused(self) -> bool:
        return self.name in UNUSED


def detach(program: Path, remove_needed: Callable[[str], None]) -> None:
    """Detach the unused libraries. `remove_needed` removes a library from the list of those to load."""
    content = bytearray(program.read_bytes())
    libraries = _make_weak(content)
    if not libraries:
        return
    temporary = program.with_name(f"{program.name}.new")
    temporary.write_bytes(content)
    temporary.chmod(0o755)
    temporary.rename(program)
    for library in libraries:
        remove_needed(library)


def _make_weak(content: bytearray) -> list[str]:
    """Make the symbols of unused libraries weak, and remove their versions; return the libraries."""
    sections = _read_sections(content)
    found = [
        next((each for each in sections if each.kind == kind), None)
        for kind in (_VERSIONS_NEEDED, _SYMBOLS, _SYMBOL_VERSIONS)
    ]
    needed, symbols, symbol_versions = found
    if needed is None or symbols is None or symbol_versions is None:
        return []
    libraries = list(_list_needed(content, needed.offset, sections[needed.link].offset))
    unused = [each for each in libraries if each.is_unused]
    if not unused or len(unused) == len(libraries):
        return []
    kept = [each for each in libraries if not each.is_unused]
    _link(kept, libraries[0].offset, content)
    struct.pack_into("<I", content, needed.header + _COUNT_OFFSET, len(kept))
    versions = frozenset().union(*(each.versions for each in unused))
    for index in range(symbol_versions.size // 2):
        offset = symbol_versions.offset + 2 * index
        if int.from_bytes(content[offset : offset + 2], "little") & ~_HIDDEN_BIT in versions:
            struct.pack_into("<H", content, offset, _UNVERSIONED)
            _make_symbol_weak(content, symbols.offset + _SYMBOL_BYTES * index)
    return [each.name for each in unused]


def _make_symbol_weak(content: bytearray, offset: int) -> None:
    info = content[offset + 4]
    if info >> 4 == _GLOBAL:
        content[offset + 4] = _WEAK << 4 | info & 0xF


def _read_sections(content: bytearray) -> list[_Section]:
    if content[:6] != _MAGIC:
        return []
    (start,) = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    if size < _SECTION.size:
        return []
    headers = range(start, start + count * size, size)
    sections = []
    for header in headers:
        kind, offset, length, link = _SECTION.unpack_from(content, header)
        sections.append(_Section(kind, offset, length, link, header))
    return sections


def _list_needed(content: bytearray, offset: int, strings: int) -> Iterator[_NeededLibrary]:
    while True:
        fields = _NEEDED.unpack_from(content, offset)
        _, count, name, first, following = fields
        start = strings + name
        versions, entry = set(), offset + first
        for _ in range(count):
            number, step = _VERSION.unpack_from(content, entry)
            versions.add(number)
            entry += step
        text = content[start : content.index(0, start)].decode(errors="replace")
        yield _NeededLibrary(text, offset, fields, frozenset(versions))
        if not following:
            return
        offset += following


def _link(libraries: list[_NeededLibrary], start: int, content: bytearray) -> None:
    """Write a list of these libraries only. The first entry is always at the start; offsets are relative to entries."""
    offsets = [start, *(each.offset for each in libraries[1:])]
    for library, offset, following in zip(libraries, offsets, [*offsets[1:], None], strict=True):
        format_version, count, name, first, _ = library.fields
        step = 0 if following is None else following - offset
        _NEEDED.pack_into(content, offset, format_version, count, name, first + library.offset - offset, step)
