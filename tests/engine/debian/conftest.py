"""A mirror that the test signs, served on loopback, with its key in place of Debian's."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bough.engine.local.debian import apt_configuration, keyring, mirrors
from bough.engine.local.debian.apt_configuration import AptConfiguration
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import debian_build, installs, locks
from bough.engine.local.installs.installs import Install
from support.debian_mirror import DebianMirror, FolderServer, serve_folder

Build = Callable[[], Install]


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DebianMirror:
    """A mirror with a small Postgres 17 and with the keyring package, which is the only source of the test's key."""
    made = DebianMirror(tmp_path / "mirror")
    monkeypatch.setattr(keyring, "FINGERPRINTS", frozenset({made.fingerprint}))
    monkeypatch.setattr(locks, "read", lambda _name, _architecture: ())
    monkeypatch.setattr(mirrors, "_PAUSE", 0)
    monkeypatch.setattr(apt_configuration, "read", AptConfiguration)
    made.add_keyring()
    made.add_server()
    made.publish()
    return made


@pytest.fixture
def site(mirror: DebianMirror, monkeypatch: pytest.MonkeyPatch) -> Iterator[FolderServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_folder(mirror.folder) as served:
        yield served


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def build(site: FolderServer, cache: Path) -> Build:
    def run() -> Install:
        with Mirrors.open(site.url) as opened:
            assert opened is not None
            return debian_build.build_default(17, opened, cache)

    return run


def list_managed(cache: Path) -> list[Install]:
    return [each for each in installs.find_installs(cache).values() if each.is_managed]
