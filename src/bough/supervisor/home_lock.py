"""Making the home folder and holding it.

As root the home is 0711, because every project's computes run as a user of their own and must pass
through it; otherwise it is 0700.
"""

from pathlib import Path

from bough.config import Settings, is_root
from bough.errors import Conflict, Unavailable
from bough.supervisor import lock, state
from bough.supervisor.addresses import ApiAddress

OLD_CONTROL_TIMEOUT = 30.0  # seconds for the control of a killed supervisor to end


def acquire(settings: Settings) -> int:
    """The lock of the home, which is made when it is missing."""
    _make(settings.home, 0o711 if is_root() else 0o700)
    _make(settings.logs, 0o700)
    fd = lock.acquire(lock.supervisor_lock_file(settings))
    if fd is None:
        raise Conflict(describe_holder(settings) or f"{settings.home} is in use by another instance.")
    _wait_for_old_control(settings)
    return fd


def describe_holder(settings: Settings) -> str | None:
    """The sentence that refuses a second platform in the same home; None when it is free."""
    pid = lock.read_holder_pid(lock.supervisor_lock_file(settings))
    if pid is None:
        return None
    seen = state.read_running(settings)
    where = f" at {ApiAddress(seen.listen, seen.api_port).base_url}" if seen else ""
    return f"Bough already runs in {settings.home}{where} (pid {pid}); stop it, or give another folder with --home DIR."


def _wait_for_old_control(settings: Settings) -> None:
    """The control of a supervisor that was killed ends by itself, and holds its port until then."""
    fd = lock.acquire(lock.control_lock_file(settings), timeout=OLD_CONTROL_TIMEOUT)
    if fd is None:
        pid = lock.read_holder_pid(lock.control_lock_file(settings))
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
