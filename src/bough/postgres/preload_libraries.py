"""Which libraries a compute preloads, as the settings of its project and its endpoint say."""

from collections.abc import Iterable, Mapping
from typing import Any

from bough.errors import Invalid
from bough.postgres.extensions import catalog

SETTINGS_KEY = "preload_libraries"
PARAMETER = "shared_preload_libraries"
STATEMENT_STATISTICS = "pg_stat_statements"
# Existing tools send it; it is a library of another platform and has no meaning here.
IGNORED = frozenset(["neon"])
DEFAULTS = tuple(each.library for each in catalog.PRELOADABLE if each.is_default)

_USE_DEFAULTS, _ENABLED = "use_defaults", "enabled_libraries"
# Each statement takes about 400 bytes of shared memory, whether it exists or not. The default of Postgres is 5000.
_MIN_STATEMENTS, _MAX_STATEMENTS, _STATEMENTS_PER_CU = 1000, 5000, 1000


def list_known(major: int) -> list[str]:
    """Return the libraries that may be preloaded, if the build of the compute contains them."""
    return sorted(each.library for each in catalog.PRELOADABLE if each.is_available(major))


def check_settings(settings: Mapping[str, Any] | None, major: int) -> None:
    """Raise Invalid for a library that cannot be preloaded."""
    known = list_known(major)
    for name in _list_enabled(settings):
        if name not in known and name not in IGNORED:
            raise Invalid(
                f"preload_libraries: {name!r} cannot be preloaded with Postgres {major}. Available: {', '.join(known)}."
            )


def select(project: Mapping[str, Any] | None, endpoint: Mapping[str, Any] | None, major: int) -> tuple[str, ...]:
    """Return the libraries to preload. The endpoint's setting, if there is one, replaces the project's."""
    chosen = endpoint if _is_given(endpoint) else project
    enabled = _list_enabled(chosen)
    requested = dict.fromkeys([*DEFAULTS, *enabled] if _uses_defaults(chosen) else enabled)
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


def build_overridable_settings(libraries: Iterable[str], max_cu: float) -> dict[str, str]:
    """Return parameters that suit a compute of this size, which the tenant may override."""
    if STATEMENT_STATISTICS not in libraries:
        return {}
    statements = min(_MAX_STATEMENTS, max(_MIN_STATEMENTS, int(max_cu * _STATEMENTS_PER_CU)))
    return {f"{STATEMENT_STATISTICS}.max": str(statements)}


def parse(parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Return the libraries that parameters of Postgres preload."""
    return tuple(name for name in parameters.get(PARAMETER, "").split(",") if name)


def restrict(parameters: Mapping[str, str], libraries: Iterable[str]) -> dict[str, str]:
    """Return the parameters with only these of the preloaded libraries, and without the settings of the others."""
    dropped = build_settings(set(parse(parameters)) - set(libraries)).keys()
    kept = {name: value for name, value in parameters.items() if name not in dropped and name != PARAMETER}
    return kept | build_settings(name for name in parse(parameters) if name in set(libraries))


def _is_given(settings: Mapping[str, Any] | None) -> bool:
    values = settings or {}
    return any(values.get(name) is not None for name in (_USE_DEFAULTS, _ENABLED))


def _uses_defaults(settings: Mapping[str, Any] | None) -> bool:
    """A list alone means exactly this list."""
    use_defaults = (settings or {}).get(_USE_DEFAULTS)
    return not _is_given(settings) if use_defaults is None else bool(use_defaults)


def _list_enabled(settings: Mapping[str, Any] | None) -> list[str]:
    """An element may name several libraries, separated by commas."""
    elements: list[str] = (settings or {}).get(_ENABLED) or []
    return [name.strip() for element in elements for name in element.split(",")]
