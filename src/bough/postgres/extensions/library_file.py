"""What a shared library of an extension says about itself, read from its bytes without running it."""

import struct

ELF_MACHINES = {"amd64": 62, "arm64": 183}  # Debian's name of the architecture → e_machine

_HEADER = struct.Struct("<4sBB10sHH")  # magic, class, byte order, rest of e_ident, e_type, e_machine
_BITS_64, _LITTLE_ENDIAN = 2, 1
_WORD = struct.Struct("<i")
# Of Pg_magic_struct: FUNC_MAX_ARGS, INDEX_MAX_KEYS, NAMEDATALEN, FLOAT8PASSBYVAL and FMGR_ABI_EXTRA, which follow the
# version of the server that the library was built for.
_AFTER_VERSION = struct.pack("<4i", 100, 32, 64, 1) + b"PostgreSQL\0"


def find_machine(content: bytes) -> int | None:
    """Return what it was built for, as in ELF_MACHINES; None if it is no library for 64-bit machines."""
    if len(content) < _HEADER.size:
        return None
    magic, bits, order, _, _, machine = _HEADER.unpack_from(content)
    return int(machine) if (magic, bits, order) == (b"\x7fELF", _BITS_64, _LITTLE_ENDIAN) else None


def find_major(content: bytes) -> int | None:
    """Return the major version of Postgres that it was built for; None if it is not made for Postgres 15 or later."""
    position = content.find(_AFTER_VERSION) - _WORD.size
    if position < 0:
        return None
    (version,) = _WORD.unpack_from(content, position)
    return int(version) // 100
