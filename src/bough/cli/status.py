"""`bough status`."""

from datetime import timedelta
from typing import Any

import typer

from bough import byte_sizes, clock, config
from bough.cli import health, options, orphaned_computes, output
from bough.supervisor import lock, state
from bough.supervisor.addresses import ApiAddress

NOT_RUNNING = 3  # the exit code that service managers use for it
HEALTH_FIELDS = (
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
    settings = config.load_settings({"home": home})
    seen = state.read_running(settings)
    if seen is None:
        _show_absence(settings, json)
        raise typer.Exit(NOT_RUNNING)
    facts = _facts(settings, seen)
    if json:
        output.print_json(facts)
    else:
        output.print_table([_row(name, value) for name, value in facts.items()])


def _show_absence(settings: config.Settings, json: bool) -> None:
    preparing = lock.read_holder_pid(lock.supervisor_lock_file(settings))
    if json:
        output.print_json({"state": "preparing" if preparing else "stopped", "home": str(settings.home)})
    elif preparing:
        output.print_text(f"Bough prepares its first start in {settings.home} (pid {preparing}).")
    else:
        output.print_text(
            f"Bough does not run in {settings.home}; `{output.format_command('up', settings.home)}` starts it."
        )
        if orphaned_computes.has_any(settings):
            output.print_text(f"It did not stop its computes; `{output.format_command('down', settings.home)}` does.")


def _facts(settings: config.Settings, seen: state.SupervisorState) -> dict[str, Any]:
    addresses = ApiAddress(seen.listen, seen.api_port)
    health_now = health.fetch_health(addresses) if seen.control_pid else None  # nobody would answer
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
    facts |= {name: told[name] for name in HEALTH_FIELDS if name in told}
    if "status" not in told and "message" in told:  # it answers, and says what keeps it from being well
        facts["trouble"] = told["message"]
    return facts


def _state(seen: state.SupervisorState, health_now: dict[str, Any] | None) -> str:
    if seen.phase != "ready":
        return seen.phase
    if not seen.control_pid:
        return "starting"  # control died and is being started again
    return "running" if health_now else "not answering"


def _row(name: str, value: Any) -> tuple[str, str]:
    if name == "uptime_seconds":
        return "uptime", str(timedelta(seconds=value))
    if name.endswith("_bytes"):
        return name.removesuffix("_bytes").replace("_", " "), byte_sizes.format_bytes(value)
    if name == "gateway_workers":
        return "gateway workers", ", ".join(_worker(**one) for one in value)
    if isinstance(value, bool):
        return name.replace("_", " "), "yes" if value else "no"
    return name.replace("_", " "), output.colorize(str(value))


def _worker(pid: int, restarts: int) -> str:
    where = f"pid {pid}" if pid else "starting"
    return f"{where} ({restarts} restarts)" if restarts else where
