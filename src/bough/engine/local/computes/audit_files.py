"""The files in which the server of an audited compute writes its log.

The server's logger opens them by name, under the compute's user id. They exist before it does, in a folder in which it
can create and replace nothing; it may only append to them. One of them is the ordinary log of the compute, under a
second name.
"""

import os
from contextlib import suppress
from pathlib import Path

from bough import log
from bough.engine.local.isolation.sandbox import Identity
from bough.postgres.statement_audit import JSON_FILE, TEXT_FILE

logger = log.get_logger(component="engine")


def prepare(folder: Path, compute_log: Path, owner: Identity) -> None:
    """Create what is missing. Idempotent."""
    folder.mkdir(mode=0o711, exist_ok=True)
    folder.chmod(0o711)
    _link_log(compute_log, folder / TEXT_FILE)
    for name in (TEXT_FILE, JSON_FILE):
        descriptor = os.open(
            folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            if not owner.is_current_user:
                os.fchown(descriptor, -1, owner.gid)
                os.fchmod(descriptor, 0o620)
        finally:
            os.close(descriptor)


def _link_log(compute_log: Path, name: Path) -> None:
    """Give the log a second name. Where links are impossible, the server writes its text to a file of its own."""
    try:
        if name.exists() and not name.samefile(compute_log):
            name.unlink()
        with suppress(FileExistsError):
            name.hardlink_to(compute_log)
    except OSError as error:
        logger.warning("compute_log_not_linked", path=str(compute_log), reason=error.strerror)
