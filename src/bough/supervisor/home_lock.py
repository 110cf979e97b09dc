"""Creates the home folder and locks it for one platform.

As root the home has mode 0711, because each project's computes run as a user of their own and must be able to
traverse it; otherwise the mode is 0700.
"""

from pathlib import Path

from bough.config import Settings, is_root
from bough.errors import Conflict, Unavailable
from bough.supervisor import lock, state

OLD_CONTROL_TIMEOUT = 30.0  # seconds that the control process of a killed supervisor has to exit


def acquire(settings: Settings) -> int:
    """Return the open lock file of the home; create the home if it is missing."""
    _make_folder(settings.home, 0o711 if is_root() else 0o700)
    _make_folder(settings.logs, 0o700)
    fd = lock.acquire(lock.supervisor_lock_file(settings))
    if fd is None:
        raise Conflict(describe_holder(settings) or f"{settings.home} is in use by another instance.")
    _wait_for_old_control(settings)
    return fd


def describe_holder(settings: Settings) -> str | None:
    """Return the error message for a second platform in the same home; None when the home is free."""
    pid = lock.read_holder_pid(lock.supervisor_lock_file(settings))
    if pid is None:
        return None
    running = state.read_running(settings)
    where = f" at {running.api_address.base_url}" if running else ""
    return (
        f"Bough is already running in {settings.home}{where} (pid {pid}); "
        "stop it, or choose another home with --home DIR."
    )


def _wait_for_old_control(settings: Settings) -> None:
    """The control process of a killed supervisor exits by itself, and holds its port until then."""
    fd = lock.acquire(lock.control_lock_file(settings), timeout=OLD_CONTROL_TIMEOUT)
    if fd is None:
        pid = lock.read_holder_pid(lock.control_lock_file(settings))
        raise Unavailable(
            f"An old control process (pid {pid}) still runs in {settings.home}; end it with `kill {pid}`."
        )
    lock.release(fd)


def _make_folder(folder: Path, mode: int) -> None:
    try:
        for parent in reversed(folder.parents):
            if not parent.exists():
                parent.mkdir(exist_ok=True)
                parent.chmod(0o755)  # independent of the umask: computes traverse it
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
    except OSError as error:
        raise Unavailable(f"The folder {folder} cannot be created: {error.strerror}.") from None
