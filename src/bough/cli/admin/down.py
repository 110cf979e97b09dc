"""`bough down`."""

import os
import select
import signal

from bough import config
from bough.cli import output
from bough.cli.admin import health, homes, leftovers, lock, options, state
from bough.cli.admin.addresses import Addresses

REMARK_AFTER = 5.0  # seconds


def down(home: options.Home = None) -> None:
    """Stop the platform and its computes.

    Returns when everything is stopped. Data stays, and `bough up` brings it back.
    """
    settings = config.load({"home": home})
    pid = lock.holder(lock.supervisor_file(settings))
    seen = state.running(settings)
    computes = (health.ask(Addresses(seen.listen, seen.api_port)) or {}).get("computes_running") if seen else None
    if pid:
        _stop(pid)
    left = _stop_leftovers(settings)
    if not pid and not left:
        output.say(f"Nothing runs in {settings.home}.")
        return
    platform = [f"the platform (pid {pid})"] if pid else []
    count = computes if isinstance(computes, int) else left
    output.say(f"Stopped {' and '.join([*platform, *_in_words(count)])}.")


def _stop(pid: int) -> None:
    try:
        supervisor = os.pidfd_open(pid)
        signal.pidfd_send_signal(supervisor, signal.SIGTERM)
    except ProcessLookupError:
        return
    ended, _, _ = select.select([supervisor], [], [], REMARK_AFTER)
    if not ended:
        output.note("Computes are still writing to disk; waiting for them.")
        select.select([supervisor], [], [])


def _stop_leftovers(settings: config.Settings) -> int:
    if not leftovers.exist(settings):
        return 0
    held = homes.hold(settings)
    try:
        return leftovers.stop(settings)
    finally:
        lock.release(held)


def _in_words(computes: int) -> list[str]:
    return [f"{computes} compute{'' if computes == 1 else 's'}"] if computes else []
