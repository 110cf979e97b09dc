"""`bough restart`."""

import os
import signal
import sys
import time

from bough import clock, config
from bough.cli import options, output, postgres_install
from bough.cli.operator_client import require_running
from bough.errors import Unavailable
from bough.supervisor import state


def restart(home: options.Home = None) -> None:
    """Restart the platform; its computes keep running.

    Applies a new version of the program and changes in bough.toml. Returns when the platform is
    ready again.
    """
    settings = config.load_settings({"home": home})
    before = require_running(settings)
    # bough.toml may name further Postgres versions.
    postgres_install.ensure_installed(settings, show_progress=sys.stderr.isatty())
    started = clock.monotonic()
    os.kill(before.pid, signal.SIGHUP)
    after = _wait_until_restarted(settings, before)
    duration = clock.monotonic() - started
    output.print_text(f"Bough is ready again at {after.api_address.base_url} after {duration:.1f} s.")


def _wait_until_restarted(settings: config.Settings, before: state.SupervisorState) -> state.SupervisorState:
    while True:
        running = state.read_running(settings)
        if running is None:
            last = state.read_last(settings)
            reason = last.sentence if last and last.started_at != before.started_at else ""
            raise Unavailable(reason or f"Bough exited; see {settings.logs / 'supervisor.log'}.")
        if running.started_at != before.started_at and running.phase == "ready":
            return running
        time.sleep(0.05)
