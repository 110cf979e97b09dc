"""Making the home folder and holding it.

As root the home is 0711, because every project's computes run as a user of their own and must pass
through it; otherwise it is 0700.
"""

from pathlib import Path

from bough.cli.admin import lock, state
from bough.cli.admin.addresses import Addresses
from bough.config import Settings, running_as_root
from bough.errors import Taken, Unavailable

OLD_CONTROL_PATIENCE = 30.0  # seconds for the control of a killed supervisor to end


def hold(settings: Settings) -> int:
    """The lock of the home, which is made when it is missing."""
    _make(settings.home, 0o711 if running_as_root() else 0o700)
    _make(settings.logs, 0o700)
    fd = lock.take(lock.supervisor_file(settings))
    if fd is None:
        raise Taken(in_use(settings) or f"{settings.home} is in use by another instance.")
    _wait_for_old_control(settings)
    return fd


def in_use(settings: Settings) -> str | None:
    """The sentence that refuses a second platform in the same home; None when it is free."""
    pid = lock.holder(lock.supervisor_file(settings))
    if pid is None:
        return None
    seen = state.running(settings)
    where = f" at {Addresses(seen.listen, seen.api_port).root}" if seen else ""
    return f"Bough already runs in {settings.home}{where} (pid {pid}); stop it, or give another folder with --home DIR."


def _wait_for_old_control(settings: Settings) -> None:
    """The control of a supervisor that was killed ends by itself, and holds its port until then."""
    fd = lock.take(lock.control_file(settings), patience=OLD_CONTROL_PATIENCE)
    if fd is None:
        pid = lock.holder(lock.control_file(settings))
        raise Unavailable(
            f"An old control process (pid {pid}) still runs in {settings.home}; end it with `kill {pid}`."
        )
    lock.release(fd)


def _make(folder: Path, mode: int) -> None:
    try:
        for parent in reversed(folder.parents):
            if not parent.exists():
                parent.mkdir(exist_ok=True)
                parent.chmod(0o755)  # whatever our umask says: computes pass through
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
    except OSError as error:
        raise Unavailable(f"The folder {folder} cannot be made: {error.strerror}.") from None
