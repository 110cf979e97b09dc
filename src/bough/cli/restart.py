"""`bough restart`."""

import os
import signal
import sys
import time

from bough import clock, config
from bough.cli import options, output, postgres_install
from bough.errors import PreconditionFailed, Unavailable
from bough.supervisor import state
from bough.supervisor.addresses import ApiAddress


def restart(home: options.Home = None) -> None:
    """Restart the platform; its computes keep running.

    A new version of the program and changes of bough.toml take effect. Returns when the platform
    is ready again.
    """
    settings = config.load_settings({"home": home})
    before = state.read_running(settings)
    if before is None:
        line = output.format_command("up", settings.home)
        raise PreconditionFailed(f"Bough does not run in {settings.home}; `{line}` starts it.")
    postgres_install.ensure_installed(
        settings, show_progress=sys.stderr.isatty()
    )  # bough.toml may ask for more versions
    began = clock.monotonic()
    os.kill(before.pid, signal.SIGHUP)
    now = _wait_for_another(settings, before)
    took = clock.monotonic() - began
    output.print_text(f"Bough is ready again at {ApiAddress(now.listen, now.api_port).base_url} after {took:.1f} s.")


def _wait_for_another(settings: config.Settings, before: state.SupervisorState) -> state.SupervisorState:
    while True:
        now = state.read_running(settings)
        if now is None:
            last = state.read_last(settings)
            reason = last.sentence if last and last.started_at != before.started_at else ""
            raise Unavailable(reason or f"Bough ended; {settings.logs / 'supervisor.log'} says why.")
        if now.started_at != before.started_at and now.phase == "ready":
            return now
        time.sleep(0.05)
