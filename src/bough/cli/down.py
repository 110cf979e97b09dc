"""`bough down`."""

import os
import select
import signal

from bough import config
from bough.cli import api_client, options, orphaned_computes, output
from bough.supervisor import home_lock, lock, state

NOTICE_DELAY = 5.0  # seconds


def down(home: options.Home = None) -> None:
    """Stop the platform and its computes.

    Returns when everything has stopped. The data stays, and `bough up` starts the platform again.
    """
    settings = config.load_settings({"home": home})
    pid = lock.read_holder_pid(lock.supervisor_lock_file(settings))
    running = state.read_running(settings)
    health = api_client.fetch_health(running.api_address) if running else None
    computes = (health or {}).get("computes_running")
    if pid:
        _stop(pid)
    orphans = _stop_orphaned_computes(settings)
    if not pid and not orphans:
        output.print_text(f"Nothing is running in {settings.home}.")
        return
    stopped = [f"the platform (pid {pid})"] if pid else []
    count = computes if isinstance(computes, int) else orphans
    if count:
        stopped.append(f"{count} compute{'' if count == 1 else 's'}")
    output.print_text(f"Stopped {' and '.join(stopped)}.")


def _stop(pid: int) -> None:
    try:
        supervisor = os.pidfd_open(pid)
        signal.pidfd_send_signal(supervisor, signal.SIGTERM)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([supervisor], [], [], NOTICE_DELAY)
    if not ended:
        output.print_note("Waiting for computes that are still writing to disk.")
        select.select([supervisor], [], [])


def _stop_orphaned_computes(settings: config.Settings) -> int:
    if not orphaned_computes.has_any(settings):
        return 0
    lock_fd = home_lock.acquire(settings)
    try:
        return orphaned_computes.stop_all(settings)
    finally:
        lock.release(lock_fd)
