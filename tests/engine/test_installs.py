"""Which Postgres installs are found, and which one a project gets."""

from pathlib import Path

import pytest

from bough.engine.local.installs import installs
from bough.engine.local.installs.build_record import BuildRecord
from bough.engine.local.installs.catalog import InstallCatalog
from bough.engine.local.installs.installs import Flavour, Install
from bough.engine.port import EngineError

NPM = "embedded-17.10.0-beta.17"
DEBIAN = "debian-17.12-0+deb13u1-1a2b3c4d"


def install(name: str, flavour: Flavour, version: str, created_at: str = "") -> Install:
    return Install(
        id=name, flavour=flavour, major=17, version=version, root=Path("/x"), bin=Path("/x"), created_at=created_at
    )


def create_install(cache: Path, name: str, bin_folder: str = "bin", *, has_record: bool = True) -> Path:
    """Create what is recognized as an install: a server, and for most flavours a record."""
    folder = cache / "postgres" / name
    (folder / bin_folder).mkdir(parents=True)
    (folder / bin_folder / "postgres").touch()
    if has_record:
        BuildRecord(path=str(folder), bin=bin_folder, created_at="2026-11-19T00:00:00+00:00").write(folder)
    return folder


def test_a_better_flavour_goes_before_a_newer_version() -> None:
    debian = install("d1", Flavour.DEBIAN, "17.9")
    newer, rebuilt = install("d2", Flavour.DEBIAN, "17.12", "1"), install("d3", Flavour.DEBIAN, "17.12", "2")
    wheel, npm = install("w", Flavour.WHEEL, "17.11"), install("n", Flavour.NPM, "17.10")
    system = install("s", Flavour.SYSTEM, "17.13")
    assert installs.select_preferred([newer, debian, wheel, npm, system]) == {17: newer}
    assert installs.select_preferred([rebuilt, newer]) == {17: rebuilt}
    assert installs.select_preferred([system, npm, wheel]) == {17: wheel}
    assert installs.select_preferred([system, npm]) == {17: npm}
    assert installs.select_preferred([system]) == {17: system}


def test_an_incomplete_install_is_not_used(tmp_path: Path) -> None:
    for name in (f"{NPM}.making", "embedded-16.14.0-beta.17", "node-24"):
        (tmp_path / "postgres" / name / "bin").mkdir(parents=True)
    (tmp_path / "postgres" / f"{NPM}.making" / "bin" / "postgres").touch()
    create_install(tmp_path, DEBIAN, has_record=False)
    create_install(tmp_path, f"{DEBIAN}.making")
    assert not [each for each in installs.find_installs(tmp_path).values() if each.is_managed]


def test_installs_of_the_cache_are_found_by_their_id(tmp_path: Path) -> None:
    npm = create_install(tmp_path, NPM, has_record=False)
    debian = create_install(tmp_path, DEBIAN, "usr/lib/postgresql/17/bin")
    found = installs.find_installs(tmp_path)
    assert (found[NPM].pin, found[NPM].version) == ("npm-17", "17.10")
    assert found[NPM].program_path("initdb") == str(npm / "bin" / "initdb")
    assert (found[DEBIAN].pin, found[DEBIAN].version) == ("debian-17", "17.12")
    assert found[DEBIAN].program_path("initdb") == str(debian / "usr/lib/postgresql/17/bin" / "initdb")


async def test_a_project_gets_the_newest_install_of_its_flavour(tmp_path: Path) -> None:
    catalog = InstallCatalog(tmp_path, tmp_path / "no home yet")
    create_install(tmp_path, NPM, has_record=False)
    create_install(tmp_path, "debian-17.11-0+deb13u1-1a2b3c4d")
    await catalog.refresh()
    assert (await catalog.require_install("debian-17")).version == "17.11"
    create_install(tmp_path, DEBIAN)
    assert (await catalog.require_install("debian-17")).version == "17.11", "until the next refresh"
    await catalog.refresh()
    assert (await catalog.require_install("debian-17")).version == "17.12"
    assert (await catalog.require_install("npm-17")).version == "17.10"
    with pytest.raises(EngineError, match="needs the Postgres build wheel-17"):
        await catalog.require_install("wheel-17")


async def test_a_home_keeps_its_installs_until_an_update(tmp_path: Path) -> None:
    """Another home that uses the same cache may add newer ones."""
    (tmp_path / "home").mkdir()
    catalog = InstallCatalog(tmp_path, tmp_path / "home")
    create_install(tmp_path, "debian-17.11-0+deb13u1-1a2b3c4d")
    await catalog.refresh()
    create_install(tmp_path, DEBIAN)
    await catalog.refresh()
    assert (await catalog.require_install("debian-17")).version == "17.11"
    again = InstallCatalog(tmp_path, tmp_path / "home")
    await again.refresh()
    assert (await again.require_install("debian-17")).version == "17.11"
