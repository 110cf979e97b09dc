"""Extensions of the operator's own: what is taken from a folder or a package, and what is refused."""

import os
import tarfile
from pathlib import Path

import pytest

from bough.engine.local.debian.errors import PackageError
from bough.engine.local.installs import own_deb, own_files, own_packages
from bough.engine.local.installs.installs import Install
from support.deb_builder import build_deb, member
from support.extension_builds import copy_extension, fetch_debian

SHARE = "./usr/share/postgresql/17/extension"
LIB = "./usr/lib/postgresql/17/lib"
CONTROL = b"default_version = '1.0'\n"
MIB = 1024**2


@pytest.fixture(scope="module")
def debian() -> Install:
    return fetch_debian()


@pytest.fixture(scope="module")
def library(debian: Install) -> bytes:
    return (debian.libraries / "seg.so").read_bytes()


def files(**more: bytes) -> dict[str, bytes]:
    return {f"{SHARE}/mine.control": CONTROL, f"{SHARE}/mine--1.0.sql": b"", **more}


def test_a_folder_is_copied_and_can_be_added_to_a_tree(tmp_path: Path, debian: Install) -> None:
    folder = copy_extension(debian, "seg", tmp_path / "given", "myseg")
    (folder / "README").write_text("not needed")
    package = own_packages.store(folder, tmp_path / "cache")
    assert (package.extensions, package.majors) == (("myseg",), (17,))
    assert own_packages.store(folder, tmp_path / "cache") == package, "the same files are the same package"
    assert own_packages.read(tmp_path / "cache", package.id) == package
    own_packages.add_to_tree([package], tmp_path / "cache", 17, tmp_path / "extension", tmp_path / "lib")
    assert (tmp_path / "lib" / "myseg.so").read_bytes() == (debian.libraries / "seg.so").read_bytes()
    assert (tmp_path / "extension" / "myseg--1.1.sql").exists()
    assert not list((tmp_path / "extension").glob("README*"))


def test_a_folder_without_libraries_is_for_every_version(tmp_path: Path) -> None:
    (tmp_path / "mine.control").write_bytes(CONTROL)
    (tmp_path / "mine--1.0.sql").write_text("")
    package = own_packages.store(tmp_path, tmp_path / "cache")
    assert package.majors == ()
    for major in (15, 18):
        target = tmp_path / str(major)
        own_packages.add_to_tree([package], tmp_path / "cache", major, target, tmp_path)
        assert sorted(path.name for path in target.iterdir()) == ["mine--1.0.sql", "mine.control"]


def test_only_the_files_of_extensions_are_taken_from_a_package(tmp_path: Path, library: bytes) -> None:
    given = files(
        **{
            f"{LIB}/mine-1.so": library,
            "./usr/lib/postgresql/17/bin/postgres": b"",
            "./usr/lib/x86_64-linux-gnu/libc.so.6": b"",
            "./usr/lib/postgresql/17/lib/bitcode/mine.bc": b"",
            "./etc/passwd": b"",
        }
    )
    link = member(f"{LIB}/mine.so", type=tarfile.SYMTYPE, linkname="mine-1.so")
    deb = build_deb(
        tmp_path / "mine.deb", given, members=(link,), control={"Depends": "libc6 (>= 2.34), libgeos-c1t64"}
    )
    package = own_packages.store(deb, tmp_path / "cache")
    assert (package.version, package.majors, package.extensions) == ("1.0", (17,), ("mine",))
    assert package.depends == "libc6 (>= 2.34), libgeos-c1t64"
    stored = tmp_path / "cache" / own_packages.FOLDER / package.id / "files"
    assert sorted(str(path.relative_to(stored)) for path in stored.rglob("*.*")) == [
        "17/extension/mine--1.0.sql",
        "17/extension/mine.control",
        "17/lib/mine-1.so",
        "17/lib/mine.so",
    ]
    own_packages.add_to_tree([package], tmp_path / "cache", 17, tmp_path / "extension", tmp_path / "lib")
    assert (tmp_path / "lib" / "mine.so").read_bytes() == library


def refuse(path: Path, cache: Path, phrase: str) -> None:
    with pytest.raises(PackageError, match=phrase):
        own_packages.store(path, cache)
    assert [each.name for each in (cache / own_packages.FOLDER).iterdir()] == []


@pytest.mark.parametrize(
    ("name", "fields", "phrase"),
    [
        (f"{SHARE}/../../../../../../etc/cron.d/x", {}, "unsafe path"),
        (f"{LIB}/mine.so", {"type": tarfile.SYMTYPE, "linkname": "/etc/shadow"}, "unsafe link mine.so"),
        (f"{LIB}/mine.so", {"type": tarfile.SYMTYPE, "linkname": "../../../../../../etc/shadow"}, "leads outside"),
        (f"{LIB}/mine.so", {"type": tarfile.SYMTYPE, "linkname": "../lib/other.so"}, "unsafe link mine.so"),
        (f"{LIB}/mine.so", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}, "unsafe link"),
        (f"{LIB}/mine.so", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}, "special file"),
        (f"{LIB}/mine.so", {"type": tarfile.BLKTYPE, "devmajor": 8}, "special file"),
        (f"{LIB}/mine.so", {"type": tarfile.FIFOTYPE}, "special file"),
        (f"{SHARE}/huge.sql", {"size": 8 * 1024**3}, "unpacks to more than"),
        ("./usr/share/doc/huge", {"size": 8 * 1024**3}, "unpacks to more than"),
    ],
)
def test_a_hostile_package_is_refused(tmp_path: Path, name: str, fields: dict[str, object], phrase: str) -> None:
    deb = build_deb(tmp_path / "mine.deb", files(), members=(member(name, **fields),))
    refuse(deb, tmp_path / "cache", phrase)


def test_a_file_below_a_link_is_refused(tmp_path: Path) -> None:
    link = member(f"{LIB}/sub", type=tarfile.SYMTYPE, linkname="/etc")
    deb = build_deb(tmp_path / "mine.deb", files(), members=(link, member(f"{LIB}/sub/x.so")))
    refuse(deb, tmp_path / "cache", "below the link")


@pytest.mark.parametrize(
    ("control", "phrase"),
    [
        ({"Architecture": "s390x"}, "built for s390x, not for"),
        ({"Architecture": ""}, "built for no architecture"),
        ({"Package": "../../etc"}, "without a valid name"),
    ],
)
def test_a_package_for_something_else_is_refused(tmp_path: Path, control: dict[str, str], phrase: str) -> None:
    refuse(build_deb(tmp_path / "mine.deb", files(), control=control), tmp_path / "cache", phrase)


def test_a_library_for_another_version_or_machine_is_refused(tmp_path: Path, library: bytes) -> None:
    seventeen, sixteen = (1700).to_bytes(4, "little"), (1600).to_bytes(4, "little")
    after = b"\x64\0\0\0\x20\0\0\0"
    other = library.replace(seventeen + after, sixteen + after)
    assert other != library
    deb = build_deb(tmp_path / "mine.deb", files(**{f"{LIB}/mine.so": other}))
    refuse(deb, tmp_path / "cache", "was built for Postgres 16, not 17")
    deb = build_deb(tmp_path / "mine.deb", files(**{f"{LIB}/mine.so": library[:18] + b"\x16" + library[19:]}))
    refuse(deb, tmp_path / "cache", "not a shared library for this machine")
    deb = build_deb(tmp_path / "mine.deb", {"./usr/share/postgresql/14/extension/mine.control": CONTROL})
    refuse(deb, tmp_path / "cache", "built for Postgres 14; extensions can be added to 15, 17, 18")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine.control").write_bytes(CONTROL)
    (folder / "mine.so").write_bytes(other)
    refuse(folder, tmp_path / "cache", "built for Postgres 16; extensions can be added to")
    (folder / "mine.so").write_bytes(library.replace(seventeen + after, bytes(12)))
    refuse(folder, tmp_path / "cache", "not a library for Postgres")


def test_what_is_no_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    refuse(tmp_path / "absent.deb", cache, "neither a package nor a folder")
    (tmp_path / "text.deb").write_text("text")
    refuse(tmp_path / "text.deb", cache, "not a Debian package")
    refuse(
        build_deb(tmp_path / "cut.deb", files(**{f"{SHARE}/mine--2.0.sql": bytes(4096)}), truncated=True),
        cache,
        "damaged",
    )
    refuse(build_deb(tmp_path / "empty.deb", {}), cache, "contains no extension")
    os.mkfifo(tmp_path / "pipe.deb")
    refuse(tmp_path / "pipe.deb", cache, "neither a package nor a folder")
    monkeypatch.setattr(own_deb, "_MAX_DEB_BYTES", 1000)
    refuse(build_deb(tmp_path / "large.deb", files()), cache, "larger than")


def test_a_hostile_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, cache = tmp_path / "folder", tmp_path / "cache"
    folder.mkdir()
    refuse(folder, cache, "contains no control file")
    (folder / "mine.control").write_bytes(CONTROL)
    (folder / "mine--1.0.sql").symlink_to("/etc/passwd")
    refuse(folder, cache, "mine--1.0.sql is not a regular file")
    (folder / "mine--1.0.sql").unlink()
    os.mkfifo(folder / "mine--1.0.sql")
    refuse(folder, cache, "mine--1.0.sql is not a regular file")
    (folder / "mine--1.0.sql").unlink()
    (folder / "a b.control").write_bytes(CONTROL)
    refuse(folder, cache, "control file 'a b.control'")
    (folder / "a b.control").unlink()
    (folder / "big.control").write_bytes(bytes(65 * 1024))
    refuse(folder, cache, "control file 'big.control'")
    (folder / "big.control").unlink()
    monkeypatch.setattr(own_files, "MAX_FILES", 2)
    for number in range(3):
        (folder / f"{number}.sql").touch()
    refuse(folder, cache, "more than 2 files")
    monkeypatch.setattr(own_files, "MAX_FILE_BYTES", MIB)
    (folder / "0.sql").write_bytes(bytes(MIB + 1))
    monkeypatch.setattr(own_files, "MAX_FILES", 100)
    refuse(folder, cache, "0.sql is larger than 1 MB")


def test_a_copy_that_no_install_contains_is_removed_later(tmp_path: Path) -> None:
    (tmp_path / "mine.control").write_bytes(CONTROL)
    package = own_packages.store(tmp_path, tmp_path / "cache")
    copy = tmp_path / "cache" / own_packages.FOLDER / package.id
    own_packages.remove_unused(tmp_path / "cache", [], is_old=lambda _: False)
    own_packages.remove_unused(tmp_path / "cache", [package.id], is_old=lambda _: True)
    assert copy.exists()
    own_packages.remove_unused(tmp_path / "cache", [], is_old=lambda _: True)
    assert not copy.exists()
    with pytest.raises(PackageError, match=f"no longer contains {package.id}"):
        own_packages.read(tmp_path / "cache", package.id)
