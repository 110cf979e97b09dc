"""`bough status`."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import typer

from bough import byte_sizes, clock, config
from bough.cli import api_client, options, orphaned_computes, output, planned_restarts
from bough.cli.operator_client import describe_stopped
from bough.cli.storage.image_facts import describe_image, format_image
from bough.engine.local.images.image import Image
from bough.supervisor import lock, state

NOT_RUNNING = 3  # the exit status that service managers use for it
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
    "postgres_warnings",
)


def status(home: options.Home = None, json: options.Json = False) -> None:
    """Show whether the platform is running, and where.

    Exits with status 3 when it is not running.
    """
    settings = config.load_settings({"home": home})
    running = state.read_running(settings)
    if running is None:
        _show_stopped(settings, json)
        raise typer.Exit(NOT_RUNNING)
    facts = _collect_facts(settings, running)
    if json:
        output.print_json(facts)
    else:
        output.print_table([_row(name, value) for name, value in facts.items()])


def _show_stopped(settings: config.Settings, json: bool) -> None:
    starting_pid = lock.read_holder_pid(lock.supervisor_lock_file(settings))
    if json:
        output.print_json({"state": "preparing" if starting_pid else "stopped", "home": str(settings.home)})
    elif starting_pid:
        output.print_text(f"Bough is preparing its first start in {settings.home} (pid {starting_pid}).")
    else:
        output.print_text(describe_stopped(settings))
        if orphaned_computes.has_any(settings):
            command = output.format_command("down", settings.home)
            output.print_text(f"Its computes are still running; stop them with `{command}`.")


def _collect_facts(settings: config.Settings, running: state.SupervisorState) -> dict[str, Any]:
    health = api_client.fetch_health(running.api_address) if running.control_pid else None
    facts: dict[str, Any] = {
        "state": _describe_state(running, health),
        "pid": running.pid,
        "control_pid": running.control_pid,
        "api_url": running.api_address.api_url,
        "gateway_port": running.gateway_port,
        "home": str(settings.home),
        "sockets": str(settings.sockets),
        "version": running.version,
        "uptime_seconds": int((clock.now() - running.since).total_seconds()),
        "control_restarts": max(0, running.control_starts - 1),
        "gateway_workers": [
            {"pid": worker["pid"], "restarts": max(0, worker["starts"] - 1)} for worker in running.workers
        ],
        "gateway_workers_draining": running.draining,
    }
    reported = health or {}
    facts |= {name: reported[name] for name in HEALTH_FIELDS if name in reported}
    if health and (fetched := planned_restarts.try_fetch(settings)):
        facts["maintenance"] = planned_restarts.describe(fetched) or "none planned"
        facts["builds_put_back"] = len(fetched["put_back"])
    facts["image"] = describe_image(Image.load(settings.home))
    if "status" not in reported and "message" in reported:  # control answers with an error
        facts["trouble"] = reported["message"]
    return facts


def _describe_state(running: state.SupervisorState, health: dict[str, Any] | None) -> str:
    if running.phase != "ready":
        return running.phase
    if not running.control_pid:
        return "starting"  # control died and is being restarted
    return "running" if health else "not answering"


def _row(name: str, value: Any) -> tuple[str, str]:
    if name == "uptime_seconds":
        return "uptime", str(timedelta(seconds=value))
    if name.endswith("_bytes"):
        return name.removesuffix("_bytes").replace("_", " "), byte_sizes.format_mb_or_gb(value)
    if name == "postgres_warnings":
        return "postgres", " ".join(value) or output.colorize("ok")
    if name in _FORMATS:
        return name.replace("_", " "), _FORMATS[name](value)
    if isinstance(value, bool):
        return name.replace("_", " "), "yes" if value else "no"
    return name.replace("_", " "), output.colorize(str(value))


def _format_worker(pid: int, restarts: int) -> str:
    text = f"pid {pid}" if pid else "starting"
    return f"{text} ({restarts} restarts)" if restarts else text


def _format_workers(workers: list[dict[str, Any]]) -> str:
    return ", ".join(_format_worker(**worker) for worker in workers)


def _format_image_or_none(image: dict[str, Any] | None) -> str:
    return format_image(image) if image else "none"


_FORMATS: dict[str, Callable[[Any], str]] = {"gateway_workers": _format_workers, "image": _format_image_or_none}
