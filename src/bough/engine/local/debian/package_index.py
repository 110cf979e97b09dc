"""The packages of several suites, newest version first."""

import lzma
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.mirrors import ExpectedFile
from bough.engine.local.debian.versions import DebianVersion

_SIZE = re.compile(r"[0-9]{1,15}")
_FIELDS = ("Package", "Version", "Depends", "Pre-Depends", "Provides", "Filename", "Size", "SHA256")
_CHUNK_BYTES = 1024**2
_MEMORY_BYTES = 256 * 1024**2  # that the decompressor may use
_DAMAGED = "An index of Debian's mirror is damaged or does not have the size that it should have, so it is not used."


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    name: str
    version: str
    depends: str  # the fields Pre-Depends and Depends
    provides: str
    file: ExpectedFile


class PackageIndex:
    def __init__(self, packages: Iterable[Package]) -> None:
        """Keep the newest version of each package, such as that of the security suite."""
        self._packages: dict[str, Package] = {}
        for package in packages:
            present = self._packages.get(package.name)
            if present is None or DebianVersion(present.version) < DebianVersion(package.version):
                self._packages[package.name] = package
        self._providers = self._find_providers()

    def __len__(self) -> int:
        return len(self._packages)

    def find(self, name: str) -> Package | None:
        """Return the package with this name, or else one that provides it."""
        return self._packages.get(name) or self._providers.get(name)

    def list_names(self) -> Iterable[str]:
        return self._packages.keys()

    def _find_providers(self) -> dict[str, Package]:
        """Return the first package, by name, that provides a name."""
        providers: dict[str, Package] = {}
        for _, package in sorted(self._packages.items()):
            for provided in package.provides.split(","):
                if name := provided.partition("(")[0].strip():
                    providers.setdefault(name, package)
        return providers


def parse(compressed: bytes, *, size: int) -> Iterator[Package]:
    """Parse a `Packages.xz` whose hash was checked. `size` is what it unpacks to."""
    for stanza in _decompress(compressed, size).decode(errors="replace").split("\n\n"):
        fields = _parse_fields(stanza)
        if {"Package", "Version", "Filename", "Size", "SHA256"} <= fields.keys() and _SIZE.fullmatch(fields["Size"]):
            yield Package(
                name=fields["Package"],
                version=fields["Version"],
                depends=", ".join(fields[name] for name in ("Pre-Depends", "Depends") if name in fields),
                provides=fields.get("Provides", ""),
                file=ExpectedFile(path=fields["Filename"], size=int(fields["Size"]), sha256=fields["SHA256"]),
            )


def _parse_fields(stanza: str) -> dict[str, str]:
    fields = {}
    for line in stanza.splitlines():
        name, separator, value = line.partition(": ")
        if separator and name in _FIELDS:
            fields[name] = value.strip()
    return fields


def _decompress(compressed: bytes, size: int) -> bytes:
    content = bytearray()
    try:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES)
        chunk = compressed
        while not decompressor.eof:
            content += decompressor.decompress(chunk, _CHUNK_BYTES)
            chunk = b""
            if len(content) > size or (decompressor.needs_input and not decompressor.eof):
                raise PackageError(_DAMAGED)
    except lzma.LZMAError as error:
        raise PackageError(_DAMAGED) from error
    return bytes(content)
