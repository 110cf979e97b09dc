"""Debian packages that tests build: an `ar` archive with compressed tar archives."""

import io
import tarfile
from collections.abc import Iterable, Mapping

AR_MAGIC = b"!<arch>\n"


def make_file(path: str, content: bytes = b"", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(f"./{path}")
    member.mode, member.size = mode, len(content)
    return member, content


def make_special(path: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    """Return a link or device, by its type in a tar archive."""
    member = tarfile.TarInfo(path)
    member.type, member.linkname = kind, target
    return member, b""


def make_tar(members: Iterable[tuple[tarfile.TarInfo, bytes]], compression: str = "xz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def make_ar(members: Mapping[str, bytes]) -> bytes:
    return AR_MAGIC + b"".join(
        make_ar_header(name, len(content)) + content + b"\n" * (len(content) % 2) for name, content in members.items()
    )


def make_ar_header(name: str, size: int) -> bytes:
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{size:<10}`\n".encode()


def make_deb(fields: Mapping[str, str], members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    control = "".join(f"{name}: {value}\n" for name, value in fields.items()).encode()
    return make_ar(
        {
            "debian-binary": b"2.0\n",
            "control.tar.xz": make_tar([make_file("control", control)]),
            "data.tar.xz": make_tar(members),
        }
    )
