"""Write a minimal ELF shared library: a few instructions, and functions that begin in them.

It needs no compiler and no other library. The format is that of the System V ABI, for 64-bit little-endian machines.
"""

import platform
import struct
from collections.abc import Mapping

_MACHINES = {"x86_64": 62, "aarch64": 183}
_SHARED = 3  # ET_DYN
_LOAD, _DYNAMIC, _GNU_STACK = 1, 2, 0x6474E551
_EXECUTABLE, _WRITABLE, _READABLE = 1, 2, 4
_HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT, _INIT, _SONAME = 4, 5, 6, 10, 11, 12, 14
_GLOBAL_FUNCTION = 1 << 4 | 2
_TEXT_SECTION = 1  # any section: the file has no section headers
_HEADER_BYTES, _SEGMENT_BYTES, _SYMBOL_BYTES = 64, 56, 24
_SEGMENTS = 4
_PAGE = 0x10000  # the largest page size of these machines


def build(name: str, code: bytes, functions: Mapping[str, int], *, initializer: int | None = None) -> bytes:
    """Return a library with these functions, each with its offset in the code.

    The dynamic linker calls the code at `initializer` when it loads the library.
    """
    strings = _Strings()
    symbols = [(strings.add(function), offset) for function, offset in functions.items()]
    soname = strings.add(name)
    code_offset = _HEADER_BYTES + _SEGMENTS * _SEGMENT_BYTES
    hash_offset = _align(code_offset + len(code))
    hash_table = _build_hash_table(len(symbols))
    symbols_offset = _align(hash_offset + len(hash_table))
    table = bytes(_SYMBOL_BYTES) + b"".join(
        struct.pack("<IBBHQQ", text, _GLOBAL_FUNCTION, 0, _TEXT_SECTION, code_offset + offset, 0)
        for text, offset in symbols
    )
    strings_offset = symbols_offset + len(table)
    dynamic_offset = _align(strings_offset + len(strings.content))
    entries = {
        _SONAME: soname,
        _HASH: hash_offset,
        _SYMTAB: symbols_offset,
        _SYMENT: _SYMBOL_BYTES,
        _STRTAB: strings_offset,
        _STRSZ: len(strings.content),
        **({} if initializer is None else {_INIT: code_offset + initializer}),
        0: 0,
    }
    dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in entries.items())
    parts = {
        0: _build_header(_MACHINES[platform.machine()]) + _build_segments(dynamic_offset, len(dynamic)),
        code_offset: code,
        hash_offset: hash_table,
        symbols_offset: table,
        strings_offset: bytes(strings.content),
        dynamic_offset: dynamic,
    }
    content = bytearray(dynamic_offset + len(dynamic))
    for offset, part in parts.items():
        content[offset : offset + len(part)] = part
    return bytes(content)


class _Strings:
    def __init__(self) -> None:
        self.content = bytearray(1)

    def add(self, text: str) -> int:
        offset = len(self.content)
        self.content += text.encode() + b"\0"
        return offset


def _build_header(machine: int) -> bytes:
    identification = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    fields = struct.pack("<HHIQQQI", _SHARED, machine, 1, 0, _HEADER_BYTES, 0, 0)
    return identification + fields + struct.pack("<HHHHHH", _HEADER_BYTES, _SEGMENT_BYTES, _SEGMENTS, 0, 0, 0)


def _build_segments(dynamic: int, length: int) -> bytes:
    """The dynamic section is in a segment of its own, because older dynamic linkers write to it."""
    writable = dynamic, dynamic + _PAGE, length  # offset, address, length
    segments = (
        (_LOAD, _READABLE | _EXECUTABLE, (0, 0, dynamic), _PAGE),
        (_LOAD, _READABLE | _WRITABLE, writable, _PAGE),
        (_DYNAMIC, _READABLE | _WRITABLE, writable, 8),
        # Without it, the dynamic linker makes the stack of the process executable.
        (_GNU_STACK, _READABLE | _WRITABLE, (0, 0, 0), 16),
    )
    return b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, size, size, alignment)
        for kind, flags, (offset, address, size), alignment in segments
    )


def _build_hash_table(count: int) -> bytes:
    """One bucket with a chain of all symbols; symbol 0 is none."""
    chain = [0, *(index + 1 if index < count else 0 for index in range(1, count + 1))]
    return struct.pack(f"<II I {count + 1}I", 1, count + 1, 1 if count else 0, *chain)


def _align(offset: int) -> int:
    return offset + -offset % 16
