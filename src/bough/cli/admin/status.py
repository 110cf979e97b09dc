"""`bough status`."""

from datetime import timedelta
from typing import Any

import typer

from bough import clock, config
from bough.cli import output
from bough.cli.admin import amounts, health, leftovers, lock, options, state
from bough.cli.admin.addresses import Addresses

NOT_RUNNING = 3  # the exit code that service managers use for it
TOLD_BY_CONTROL = (
    "projects",
    "computes_running",
    "operations_open",
    "driver",
    "isolation",
    "limits",
    "storage_free_bytes",
    "storage_total_bytes",
    "accepts_new",
)


def status(home: options.Home = None, json: options.Json = False) -> None:
    """Show whether the platform runs, and where.

    Exits with 3 when it does not run.
    """
    settings = config.load({"home": home})
    seen = state.running(settings)
    if seen is None:
        _show_absence(settings, json)
        raise typer.Exit(NOT_RUNNING)
    facts = _facts(settings, seen)
    if json:
        output.show_json(facts)
    else:
        output.table([_row(name, value) for name, value in facts.items()])


def _show_absence(settings: config.Settings, json: bool) -> None:
    preparing = lock.holder(lock.supervisor_file(settings))
    if json:
        output.show_json({"state": "preparing" if preparing else "stopped", "home": str(settings.home)})
    elif preparing:
        output.say(f"Bough prepares its first start in {settings.home} (pid {preparing}).")
    else:
        output.say(f"Bough does not run in {settings.home}; `{output.our_command('up', settings.home)}` starts it.")
        if leftovers.exist(settings):
            output.say(f"It did not stop its computes; `{output.our_command('down', settings.home)}` does.")


def _facts(settings: config.Settings, seen: state.State) -> dict[str, Any]:
    addresses = Addresses(seen.listen, seen.api_port)
    health_now = health.ask(addresses) if seen.control_pid else None  # nobody would answer
    facts: dict[str, Any] = {
        "state": _state(seen, health_now),
        "pid": seen.pid,
        "control_pid": seen.control_pid,
        "api_url": addresses.api_url,
        "gateway_port": seen.gateway_port,
        "home": str(settings.home),
        "sockets": str(settings.sockets),
        "version": seen.version,
        "uptime_seconds": int((clock.now() - seen.since).total_seconds()),
        "control_restarts": max(0, seen.control_starts - 1),
        "gateway_workers": [{"pid": one["pid"], "restarts": max(0, one["starts"] - 1)} for one in seen.workers],
        "gateway_workers_draining": seen.draining,
    }
    told = health_now or {}
    facts |= {name: told[name] for name in TOLD_BY_CONTROL if name in told}
    if "status" not in told and "message" in told:  # it answers, and says what keeps it from being well
        facts["trouble"] = told["message"]
    return facts


def _state(seen: state.State, health_now: dict[str, Any] | None) -> str:
    if seen.phase != "ready":
        return seen.phase
    if not seen.control_pid:
        return "starting"  # control died and is being started again
    return "running" if health_now else "not answering"


def _row(name: str, value: Any) -> tuple[str, str]:
    if name == "uptime_seconds":
        return "uptime", str(timedelta(seconds=value))
    if name.endswith("_bytes"):
        return name.removesuffix("_bytes").replace("_", " "), amounts.in_words(value)
    if name == "gateway_workers":
        return "gateway workers", ", ".join(_worker(**one) for one in value)
    if isinstance(value, bool):
        return name.replace("_", " "), "yes" if value else "no"
    return name.replace("_", " "), output.paint(str(value))


def _worker(pid: int, restarts: int) -> str:
    where = f"pid {pid}" if pid else "starting"
    return f"{where} ({restarts} restarts)" if restarts else where
