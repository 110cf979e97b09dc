"""The environment file on disk: checked first, and replaced atomically or left unchanged.

It contains a password, so only its owner can read a new file; an existing file keeps its mode and owner.
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bough.errors import PreconditionFailed

_MODE = 0o600
_WRITABLE = 0o222


class EnvFileError(PreconditionFailed):
    """The file could not be replaced and is unchanged."""


@dataclass(frozen=True, slots=True)
class EnvFile:
    display_name: str  # as the user typed it
    target: Path  # the resolved path: links are followed to read, never to write
    content: bytes
    mode: int
    owner: tuple[int, int] | None  # user and group; None: the file does not exist yet

    @classmethod
    def read(cls, display_name: str) -> "EnvFile":
        target = Path(os.path.realpath(display_name))
        with _translate_errors(display_name, "read"):
            if not target.exists():
                return cls._make_absent(display_name, target)
            if not target.is_file():
                kind = "a folder" if target.is_dir() else "not a regular file"
                raise EnvFileError(f"{display_name} is {kind}; choose a file with --env.")
            status = target.stat()
            content = target.read_bytes()
        if b"\0" in content:
            raise EnvFileError(f"{display_name} is not UTF-8 text; choose another file with --env.")
        return cls(display_name, target, content, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid))

    @classmethod
    def _make_absent(cls, display_name: str, target: Path) -> "EnvFile":
        if os.path.lexists(display_name):
            raise EnvFileError(
                f"{display_name} is a symbolic link to a missing file; remove the link, or create the file."
            )
        if not target.parent.is_dir():
            raise EnvFileError(
                f"The folder {target.parent} of {display_name} does not exist; create it, or choose a file with --env."
            )
        return cls(display_name, target, b"", _MODE, None)

    @property
    def exists(self) -> bool:
        return self.owner is not None

    def check_writable(self) -> None:
        """Do everything that `replace` does except the last step."""
        if Path(self.display_name).is_symlink():
            raise EnvFileError(
                f"{self.display_name} is a symbolic link, and no password is written through one; "
                f"name the file itself with --env {self.target}."
            )
        with _translate_errors(self.display_name, "written"):
            if self.exists and not (self.mode & _WRITABLE and os.access(self.target, os.W_OK)):
                raise EnvFileError(
                    f"{self.display_name} is read-only; make it writable, or choose another file with --env."
                )
            with self._temporary_file(self.content):
                pass

    def replace(self, content: bytes) -> None:
        with _translate_errors(self.display_name, "written"), self._temporary_file(content) as temporary:
            temporary.replace(self.target)
            folder = os.open(self.target.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextmanager
    def _temporary_file(self, content: bytes) -> Iterator[Path]:
        """Write the content to a file in the same folder, which is removed unless it replaces the target."""
        descriptor, path = tempfile.mkstemp(prefix=f".{self.target.name}.", dir=self.target.parent)
        temporary = Path(path)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                if self.owner not in {None, _owner(descriptor)}:
                    os.fchown(descriptor, *self.owner)
                os.fchmod(descriptor, self.mode)
                os.fsync(descriptor)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


def _owner(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_uid, status.st_gid


@contextmanager
def _translate_errors(display_name: str, action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvFileError(f"{display_name} cannot be {action}: {error.strerror or error}.") from None
