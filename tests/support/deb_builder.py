"""Build Debian packages, also malformed ones."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from bough.engine.local.debian import architecture

OWN_ARCHITECTURE = architecture.find_architecture().name


def member(name: str, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def build_deb(
    path: Path,
    files: dict[str, bytes],
    *,
    members: tuple[tarfile.TarInfo, ...] = (),
    truncated: bool = False,
    control: Mapping[str, str] | None = None,
) -> Path:
    """Write a package. `members` are added without content, `truncated` ones with less than they announce."""
    fields = {"Package": "my-extension", "Version": "1.0", "Architecture": OWN_ARCHITECTURE, **(control or {})}
    text = "".join(f"{name}: {value}\n" for name, value in fields.items())
    content = _tar(files, members)
    data = {"debian-binary": b"2.0\n", "control.tar": _tar({"./control": text.encode()}), "data.tar": content}
    with path.open("wb") as file:
        file.write(b"!<arch>\n")
        for name, body in data.items():
            header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(body):<10}`\n"
            file.write(header.encode() + body + b"\n" * (len(body) % 2))
    if truncated:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - 9000)
    return path


def _tar(files: Mapping[str, bytes], members: tuple[tarfile.TarInfo, ...] = ()) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, body in files.items():
            archive.addfile(member(name, size=len(body)), io.BytesIO(body))
        for each in members:
            archive.addfile(each)
    return content.getvalue()
