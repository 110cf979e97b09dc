"""A small shared library that creates a file when it is loaded, in place of an attacker's code."""

import os
import platform
import struct
from pathlib import Path

from bough.engine.local.isolation import elf_library

NAME = "attack.so"
_FLAGS, _MODE = os.O_WRONLY | os.O_CREAT, 0o644
_AT_FDCWD = -100


def write_library(folder: Path, marker: Path) -> Path:
    """Write a world-readable library; loading it creates the file `marker`."""
    library = folder / NAME
    path = os.fsencode(marker) + b"\0"
    code = _build_x86_64(path) if platform.machine() == "x86_64" else _build_aarch64(path)
    library.write_bytes(elf_library.build(NAME, code, {}, initializer=0))
    library.chmod(0o755)
    return library


def _build_x86_64(path: bytes) -> bytes:
    """Call openat(AT_FDCWD, path, flags, mode) and return. The path follows the code."""
    after_address = (
        b"\xba"
        + struct.pack("<i", _FLAGS)  # mov edx, flags
        + b"\x41\xba"
        + struct.pack("<i", _MODE)  # mov r10d, mode
        + b"\x0f\x05\xc3"  # syscall; ret
    )
    return (
        b"\xb8" + struct.pack("<i", 257)  # mov eax, openat
        + b"\xbf" + struct.pack("<i", _AT_FDCWD)  # mov edi, AT_FDCWD
        + b"\x48\x8d\x35" + struct.pack("<i", len(after_address))  # lea rsi, [rip + …]
        + after_address + path
    )  # fmt: skip


def _build_aarch64(path: bytes) -> bytes:
    """The same for arm64: openat has the number 56 there."""
    move = 0xD2800000  # movz x0, #0
    words = [
        move | 56 << 5 | 8,
        0x92800000 | (-_AT_FDCWD - 1) << 5,  # movn x0
        0x10000000 | 5 << 5 | 1,  # adr x1, the fifth word after it
        move | _FLAGS << 5 | 2,
        move | _MODE << 5 | 3,
        0xD4000001,  # svc 0
        0xD65F03C0,  # ret
    ]
    return struct.pack(f"<{len(words)}I", *words) + path
