"""Read a member of an `ar` archive, as a Debian package is one."""

import gzip
import io
import lzma
from typing import IO, Any, BinaryIO

from bough.engine.local.debian.errors import PackageError

_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60


def open_tar(file: BinaryIO, prefix: str, max_bytes: int) -> IO[bytes]:
    """Return the decompressed content of the first member whose name begins with the prefix.

    Reading more than `max_bytes` of it raises a PackageError.
    """
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        raise PackageError("The file is not a Debian package.")
    while len(header := file.read(_HEADER_BYTES)) == _HEADER_BYTES:
        name, size = header[:16].decode(errors="replace").rstrip(" /"), header[48:58].strip()
        if header[58:] != b"`\n" or not size.isdigit():
            break
        start = file.tell()
        if name.startswith(prefix):
            return _LimitedContent(_decompress(_Member(file, int(size)), name), max_bytes)
        file.seek(start + int(size) + int(size) % 2)
    raise PackageError(f"The package has no {prefix}, so it is damaged.")


def _decompress(section: "_Member", name: str) -> BinaryIO:
    content: Any = io.BufferedReader(section, 256 * 1024)
    if name.endswith(".xz"):
        content = lzma.LZMAFile(content)  # noqa: SIM115  the caller closes it
    elif name.endswith(".gz"):
        content = gzip.GzipFile(fileobj=content)
    elif not name.endswith(".tar"):
        raise PackageError(f"The package is compressed as {name}, which is not supported: use one with .xz or .gz.")
    return content  # type: ignore[no-any-return]


class _Member(io.RawIOBase):
    """The next bytes of a file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._remaining = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(min(len(buffer), self._remaining))
        if self._remaining and not content and len(buffer):
            raise EOFError("it ends too early")
        self._remaining -= len(content)
        buffer[: len(content)] = content
        return len(content)


class _LimitedContent(io.BufferedIOBase, BinaryIO):
    """Decompressed content. A small file may unpack to any amount, also where the tar archive names no file."""

    def __init__(self, content: BinaryIO, max_bytes: int) -> None:
        self._content = content
        self._remaining = max_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        content = self._content.read(self._remaining + 1 if size is None or size < 0 else size)
        self._remaining -= len(content)
        if self._remaining < 0:
            raise PackageError("The package unpacks to more than a package of Debian does, so it is not used.")
        return content

    def close(self) -> None:
        self._content.close()
        super().close()
