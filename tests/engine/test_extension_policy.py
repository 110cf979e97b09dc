"""The files of extensions in a build, after the catalog was applied to them."""

from pathlib import Path

import pytest

from bough.engine.local.installs import extension_policy


@pytest.fixture
def share(tmp_path: Path) -> Path:
    for name in ("share/extension", "lib"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "share"


def add_extension(share: Path, name: str, default: str, *scripts: str, directory: str = "") -> None:
    """Add an extension whose scripts execute a query. `scripts` are the versions in their names."""
    control = f"default_version = '{default}'\nrelocatable = true\n"
    if directory:
        control += f"directory = '{directory}'\n"
    (share / "extension" / f"{name}.control").write_text(control)
    folder = share / (directory or "extension")
    folder.mkdir(exist_ok=True)
    for script in scripts:
        (folder / f"{name}--{script}.sql").write_text("select lower('a');\n")


def apply(share: Path) -> None:
    extension_policy.apply(share / "extension", share.parent / "lib")


def list_scripts(share: Path, name: str) -> list[str]:
    return sorted(path.stem.removeprefix(f"{name}--") for path in (share / "extension").glob(f"{name}--*.sql"))


def test_scripts_in_a_folder_of_their_own_are_checked_too(share: Path) -> None:
    add_extension(share, "semver", "0.40.0", "0.40.0", "0.32.1--0.40.0", "unpackaged--0.2.1", directory="semver")
    apply(share)
    assert list_scripts(share, "semver") == ["0.32.1--0.40.0", "0.40.0"]
    for path in (share / "extension").glob("semver--*.sql"):
        assert "could call" in path.read_text()
    assert "directory" not in (share / "extension" / "semver.control").read_text()


def test_scripts_outside_of_the_build_are_not_taken(share: Path) -> None:
    add_extension(share, "semver", "0.40.0", "0.40.0", directory="../elsewhere")
    apply(share)
    assert list_scripts(share, "semver") == []
    assert (share.parent / "elsewhere" / "semver--0.40.0.sql").read_text() == "select lower('a');\n"


def test_only_the_default_version_can_be_created(share: Path) -> None:
    """Its users can still be updated from earlier versions."""
    add_extension(share, "h3", "4.2.2", "0.1.0", "0.1.0--3.6.1", "3.6.1--4.2.2", "4.2.2", "4.2.2--4.2.1", "4.2.2--ANY")
    apply(share)
    assert list_scripts(share, "h3") == ["0.1.0--3.6.1", "3.6.1--4.2.2", "4.2.2"]


def test_an_early_version_stays_if_the_default_one_is_created_from_it(share: Path) -> None:
    add_extension(share, "hll", "2.18", "2.10", "2.10--2.18")
    apply(share)
    assert list_scripts(share, "hll") == ["2.10", "2.10--2.18"]
