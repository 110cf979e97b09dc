"""Which libraries a compute preloads, as the settings of its project and its endpoint say."""

from collections.abc import Iterable, Mapping
from typing import Any

from bough.errors import Invalid
from bough.postgres.extensions import catalog

SETTINGS_KEY = "preload_libraries"
PARAMETER = "shared_preload_libraries"
# Existing tools send it; it is a library of another platform and has no meaning here.
IGNORED = frozenset(["neon"])


def list_known(major: int) -> list[str]:
    """Return the libraries that may be preloaded, if the build of the compute contains them."""
    return sorted(each.library for each in catalog.PRELOADABLE if each.is_available(major))


def check_settings(settings: Mapping[str, Any] | None, major: int) -> None:
    """Raise Invalid for a library that cannot be preloaded."""
    known = list_known(major)
    for name in _requested(settings):
        if name not in known and name not in IGNORED:
            raise Invalid(
                f"preload_libraries: {name!r} cannot be preloaded with Postgres {major}. Available: {', '.join(known)}."
            )


def select(project: Mapping[str, Any] | None, endpoint: Mapping[str, Any] | None, major: int) -> tuple[str, ...]:
    """Return the libraries to preload. The endpoint's setting, if there is one, replaces the project's."""
    requested = dict.fromkeys(_requested(endpoint if endpoint is not None else project))
    known = list_known(major)
    return tuple(name for name in requested if name in known)


def build_settings(libraries: Iterable[str]) -> dict[str, str]:
    """Return the parameters of Postgres for these libraries; nothing if there is none."""
    names = list(libraries)
    if not names:
        return {}
    parameters: dict[str, str] = {PARAMETER: ",".join(names)}
    for each in catalog.PRELOADABLE:
        if each.library in names:
            parameters |= each.settings
    return parameters


def parse(parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return the libraries that parameters of Postgres preload."""
    return tuple(name for name in parameters.get(PARAMETER, "").split(",") if name)


def restrict(parameters: Mapping[str, str], libraries: Iterable[str]) -> dict[str, str]:
    """Return the parameters with only these of the preloaded libraries, and without the settings of the others."""
    dropped = build_settings(set(parse(parameters)) - set(libraries)).keys()
    kept = {name: value for name, value in parameters.items() if name not in dropped and name != PARAMETER}
    return kept | build_settings(name for name in parse(parameters) if name in set(libraries))


def _requested(settings: Mapping[str, Any] | None) -> list[str]:
    return list((settings or {}).get("enabled_libraries") or [])
