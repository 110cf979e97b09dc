"""Which Postgres installs are found, and which one a new project gets."""

from pathlib import Path

from bough.engine.local.installs import installs
from bough.engine.local.installs.installs import Install


def install(name: str, major: int, *, own: bool) -> Install:
    return Install(id=name, major=major, bin=Path("/x"), is_embedded=own)


def test_ours_goes_before_the_systems_and_newer_before_older() -> None:
    wanted = install("embedded-17.10.0-beta.17", 17, own=True)
    older = install("embedded-17.9.0-beta.17", 17, own=True)
    system = install("system-17", 17, own=False)
    assert installs.select_preferred([wanted, system, older]) == {17: wanted}
    assert installs.select_preferred([system]) == {17: system}


def test_a_half_made_install_is_not_seen(tmp_path: Path) -> None:
    for name in ("embedded-17.10.0-beta.17.making", "embedded-16.14.0-beta.17", "node-24"):
        (tmp_path / "postgres" / name / "bin").mkdir(parents=True)
    (tmp_path / "postgres" / "embedded-17.10.0-beta.17.making" / "bin" / "postgres").touch()
    assert not [each for each in installs.find_installs(tmp_path).values() if each.is_embedded]


def test_an_install_is_looked_up_by_its_id(tmp_path: Path) -> None:
    folder = installs.embedded_folder(tmp_path, "17.10.0-beta.17")
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "postgres").touch()
    found = installs.find_installs(tmp_path)["embedded-17.10.0-beta.17"]
    assert (found.major, found.is_embedded) == (17, True)
    assert found.program_path("initdb") == str(folder / "bin" / "initdb")
