"""The errors of an engine."""

from bough.errors import ErrorKind, PlatformError


class EngineError(PlatformError):
    """The engine failed. The message may be shown to users; `transient` says whether to try again."""

    kind = ErrorKind.UNAVAILABLE

    def __init__(self, public: str, *, transient: bool = True) -> None:
        super().__init__(public)
        self.transient = transient


class VolumeHasDependents(EngineError):
    """The volume cannot be deleted yet, because the history of another volume needs it. Transient."""
