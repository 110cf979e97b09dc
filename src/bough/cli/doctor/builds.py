"""Checks of the Postgres builds on this machine, and of what they need."""

from collections.abc import Iterable

from bough.cli import api_client, output, postgres_install
from bough.cli.doctor.finding import Finding, failed, ok, warning
from bough.config import Settings
from bough.engine.local.debian import apt_configuration
from bough.engine.local.installs import fallbacks, installs, time_zones, update
from bough.engine.local.installs.installs import Flavour, Install
from bough.supervisor import state

_NEED_TIME_ZONES = (Flavour.DEBIAN, Flavour.WHEEL)


def check_postgres(settings: Settings) -> Finding:
    """Report missing versions, and those that come from a source that offers less than Debian."""
    missing = postgres_install.find_missing_versions(settings)
    if missing:
        if problem := postgres_install.find_fetch_problem():
            return failed("postgres", *problem)
        return ok("postgres", f"Postgres {', '.join(str(version) for version in missing)} will be downloaded")
    found = _list_installs(settings)
    warnings = [*_list_warnings(found), *list_project_warnings(settings)]
    if not warnings:
        return ok("postgres", ", ".join(f"Postgres {install.version} from Debian" for install in found))
    inferior = next((install for install in found if fallbacks.describe(install)), None)
    return warning("postgres", " ".join(warnings), _suggest(settings, inferior) if inferior else "")


def list_project_warnings(settings: Settings) -> list[str]:
    """Return what the running platform says about builds that only existing projects use."""
    running = state.read_running(settings)
    health = api_client.fetch_health(running.api_address) if running else None
    known = _list_warnings(_list_installs(settings))
    return [text for text in (health or {}).get("postgres_warnings", []) if text not in known]


def check_time_zones(settings: Settings) -> Finding:
    """Debian's and PyPI's builds read the time zones of the machine, and do not start without them."""
    problem = time_zones.explain_missing()
    if problem is None:
        return ok("time zones", str(time_zones.FOLDER))
    if any(install.flavour in _NEED_TIME_ZONES for install in _list_installs(settings)):
        return failed("time zones", problem, time_zones.FIX)
    return warning("time zones", f"{problem} Until then, Bough uses a build with its own time zones.", time_zones.FIX)


def _list_installs(settings: Settings) -> list[Install]:
    """Return the installs that new projects get."""
    try:
        serving = update.list_serving(settings.home, installs.find_installs(settings.cache))
    except PermissionError:
        return []
    preferred = installs.select_preferred(serving.values())
    return [preferred[major] for major in settings.postgres_versions if major in preferred]


def _list_warnings(found: Iterable[Install]) -> list[str]:
    return [text for install in found if (text := fallbacks.describe(install))]


def _suggest(settings: Settings, install: Install) -> str:
    has_mirror = bool(settings.debian_mirror or apt_configuration.read().addresses)
    return fallbacks.suggest(install, output.format_command("postgres update", settings.home), has_mirror=has_mirror)
