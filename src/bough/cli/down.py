"""`bough down`."""

import os
import select
import signal

from bough import config
from bough.cli import health, options, orphaned_computes, output
from bough.supervisor import home_lock, lock, state
from bough.supervisor.addresses import ApiAddress

NOTICE_DELAY = 5.0  # seconds


def down(home: options.Home = None) -> None:
    """Stop the platform and its computes.

    Returns when everything is stopped. Data stays, and `bough up` brings it back.
    """
    settings = config.load_settings({"home": home})
    pid = lock.read_holder_pid(lock.supervisor_lock_file(settings))
    seen = state.read_running(settings)
    computes = (
        (health.fetch_health(ApiAddress(seen.listen, seen.api_port)) or {}).get("computes_running") if seen else None
    )
    if pid:
        _stop(pid)
    left = _stop_leftovers(settings)
    if not pid and not left:
        output.print_text(f"Nothing runs in {settings.home}.")
        return
    platform = [f"the platform (pid {pid})"] if pid else []
    count = computes if isinstance(computes, int) else left
    output.print_text(f"Stopped {' and '.join([*platform, *_in_words(count)])}.")


def _stop(pid: int) -> None:
    try:
        supervisor = os.pidfd_open(pid)
        signal.pidfd_send_signal(supervisor, signal.SIGTERM)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([supervisor], [], [], NOTICE_DELAY)
    if not ended:
        output.print_note("Computes are still writing to disk; waiting for them.")
        select.select([supervisor], [], [])


def _stop_leftovers(settings: config.Settings) -> int:
    if not orphaned_computes.has_any(settings):
        return 0
    held = home_lock.acquire(settings)
    try:
        return orphaned_computes.stop_all(settings)
    finally:
        lock.release(held)


def _in_words(computes: int) -> list[str]:
    return [f"{computes} compute{'' if computes == 1 else 's'}"] if computes else []
