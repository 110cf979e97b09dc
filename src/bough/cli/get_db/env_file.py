"""The environment file on disk: looked at first, replaced as a whole at the end, or not touched at all.

It holds a password, so a new one is its owner's only; one that was there keeps its mode and its owner.
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
_ANYBODY_WRITES = 0o222


class EnvFileError(PreconditionFailed):
    """The file could not be replaced; it is as it was."""


@dataclass(frozen=True, slots=True)
class EnvFile:
    display_name: str  # as the user calls it
    target: Path  # where it is: a link is followed to read, never to write
    content: bytes
    mode: int
    owner: tuple[int, int] | None  # user and group; None: there is no file yet

    @classmethod
    def read(cls, display_name: str) -> "EnvFile":
        target = Path(os.path.realpath(display_name))
        with _in_words(display_name, "read"):
            if not target.exists():
                return cls._absent(display_name, target)
            if not target.is_file():
                what = "a folder" if target.is_dir() else "no ordinary file"
                raise EnvFileError(f"{display_name} is {what}; name a file with --env.")
            seen = target.stat()
            content = target.read_bytes()
        if b"\0" in content:
            raise EnvFileError(f"{display_name} is no text in UTF-8; name another file with --env.")
        return cls(display_name, target, content, stat.S_IMODE(seen.st_mode), (seen.st_uid, seen.st_gid))

    @classmethod
    def _absent(cls, named: str, target: Path) -> "EnvFile":
        if os.path.lexists(named):
            raise EnvFileError(f"{named} is a link to a file that is not there; remove the link, or make its file.")
        if not target.parent.is_dir():
            raise EnvFileError(f"There is no folder {target.parent} for {named}; make it, or name a file with --env.")
        return cls(named, target, b"", _MODE, None)

    @property
    def exists(self) -> bool:
        return self.owner is not None

    def check_writable(self) -> None:
        """That it can be replaced: all that `replace` does, but for the last step."""
        if Path(self.display_name).is_symlink():
            raise EnvFileError(
                f"{self.display_name} is a link, and no password is written through one; name the file itself: "
                f"--env {self.target}."
            )
        with _in_words(self.display_name, "written"):
            if self.exists and not (self.mode & _ANYBODY_WRITES and os.access(self.target, os.W_OK)):
                raise EnvFileError(
                    f"{self.display_name} is read-only; allow writing to it, or name another with --env."
                )
            with self._temporary_file(self.content):
                pass

    def replace(self, content: bytes) -> None:
        with _in_words(self.display_name, "written"), self._temporary_file(content) as prepared:
            prepared.replace(self.target)
            folder = os.open(self.target.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextmanager
    def _temporary_file(self, content: bytes) -> Iterator[Path]:
        """The content on disk, in a file in the same folder that goes unless it becomes the file itself."""
        descriptor, path = tempfile.mkstemp(prefix=f".{self.target.name}.", dir=self.target.parent)
        prepared = Path(path)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                if self.owner not in {None, _owner(descriptor)}:
                    os.fchown(descriptor, *self.owner)
                os.fchmod(descriptor, self.mode)
                os.fsync(descriptor)
            yield prepared
        finally:
            prepared.unlink(missing_ok=True)


def _owner(descriptor: int) -> tuple[int, int]:
    seen = os.fstat(descriptor)
    return seen.st_uid, seen.st_gid


@contextmanager
def _in_words(named: str, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvFileError(f"{named} cannot be {done}: {error.strerror or error}.") from None
