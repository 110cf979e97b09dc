"""Errors of getting packages."""

from bough.engine.port import EngineError


class PackageError(EngineError):
    """Packages cannot be had from the mirrors; the message says why."""

    def __init__(self, public: str) -> None:
        super().__init__(public, transient=False)


class FileMissing(PackageError):
    """No mirror has the file: it was replaced by a newer version, or the mirror is incomplete."""
