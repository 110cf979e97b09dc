"""Unpacking a package: nothing outside the target is created or read, whatever the package contains."""

import io
import stat
import struct
import tarfile
from pathlib import Path

import pytest

from bough.engine.local.debian import deb_file
from bough.engine.local.debian.errors import PackageError
from support.deb_files import AR_MAGIC, make_ar, make_ar_header, make_deb, make_file, make_special, make_tar

Member = tuple[tarfile.TarInfo, bytes]
OUTSIDE = b"a file of the machine"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_bytes(OUTSIDE)
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def unpack(target: Path, *members: Member) -> None:
    unpack_file(target, make_deb({}, members))


def unpack_file(target: Path, content: bytes, max_bytes: int = 2**20) -> None:
    deb_file.unpack(io.BytesIO(content), target, lambda _path: True, max_bytes)


def test_files_and_links_are_created_with_plain_modes(target: Path) -> None:
    unpack(
        target,
        make_special("./usr/lib/", tarfile.DIRTYPE),
        make_file("usr/lib/library.so.5.17", b"library", 0o4644),
        make_special("./usr/lib/library.so.5", tarfile.SYMTYPE, "library.so.5.17"),
        make_special("./usr/lib/another.so", tarfile.LNKTYPE, "./usr/lib/library.so.5.17"),
        make_special("./usr/share/absolute", tarfile.SYMTYPE, "/lib/library.so.5"),
        make_file("usr/bin/program", b"program", 0o6755),
        make_file("bin/merged", b"merged", 0o755),
    )
    assert (target / "usr/lib/library.so.5").read_bytes() == b"library"
    assert (target / "usr/lib/another.so").read_bytes() == b"library"
    assert str((target / "usr/share/absolute").readlink()) == "../lib/library.so.5"
    assert (target / "usr/bin/merged").read_bytes() == b"merged"
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (target / "usr").rglob("*")}
    assert (modes["program"], modes["library.so.5.17"], modes["lib"]) == (0o755, 0o644, 0o755)


def test_a_file_replaces_one_of_an_earlier_package(target: Path) -> None:
    unpack(target, make_file("usr/lib/x", b"old"), make_special("usr/lib/link", tarfile.SYMTYPE, "x"))
    unpack(target, make_file("usr/lib/link", b"new"))
    assert (target / "usr/lib/x").read_bytes() == b"old", "it is not written through the link"
    assert (target / "usr/lib/link").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ([make_file("../outside", b"x")], "unsafe path"),
        ([make_file("usr/../../outside", b"x")], "unsafe path"),
        ([make_special("usr/x", tarfile.SYMTYPE, "../../../outside")], "leads outside"),
        ([make_special("usr/x", tarfile.SYMTYPE, "/../outside")], "unsafe path"),
        ([make_special("usr/x", tarfile.LNKTYPE, "../outside")], "unsafe path"),
        ([make_special("usr/x", tarfile.LNKTYPE, "/outside")], "unsafe link"),
        ([make_special("usr/x", tarfile.LNKTYPE, "usr/missing")], "unsafe link"),
        ([make_special("usr/x", tarfile.SYMTYPE, "y"), make_special("usr/z", tarfile.LNKTYPE, "usr/x")], "unsafe link"),
        ([make_special("usr/x", tarfile.SYMTYPE, "lib"), make_file("usr/x/y", b"x")], "below the link usr/x"),
        ([make_special("usr", tarfile.SYMTYPE, "/"), make_file("usr/outside", b"x")], "below the link usr"),
        ([make_special("usr/null", tarfile.CHRTYPE)], "special file usr/null"),
        ([make_special("usr/disk", tarfile.BLKTYPE)], "special file usr/disk"),
        ([make_special("usr/pipe", tarfile.FIFOTYPE)], "special file usr/pipe"),
        ([make_file("usr/large", bytes(2**20))], "unpacks to more than"),
    ],
)
def test_what_leads_outside_is_refused(target: Path, members: list[Member], sentence: str) -> None:
    with pytest.raises(PackageError, match=sentence):
        unpack(target, *members)
    assert (target.parent / "outside").read_bytes() == OUTSIDE
    assert (target.parent / "outside").stat().st_nlink == 1
    assert not [path for path in target.rglob("*") if not path.resolve().is_relative_to(target)]


def test_a_hard_link_through_a_linked_folder_is_refused(target: Path) -> None:
    """The operator's own folder may contain a link; a package cannot create one that leads outside."""
    (target / "usr").mkdir()
    (target / "usr" / "link").symlink_to(target.parent)
    with pytest.raises(PackageError, match="unsafe link"):
        unpack(target, make_special("usr/x", tarfile.LNKTYPE, "usr/link/outside"))


def test_headers_that_need_a_lot_of_memory_are_refused(target: Path) -> None:
    """An extended header is read at once; it is no file, so the sum of the files' sizes does not limit it."""
    member, content = make_file("usr/x")
    member.pax_headers = {"comment": "x" * 2**22}
    with pytest.raises(PackageError, match="unpacks to more than"):
        unpack(target, (member, content))


def test_a_sparse_file_counts_with_its_size(target: Path) -> None:
    member, content = make_file("usr/x")
    member.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "0", "GNU.sparse.size": str(2**40)}
    with pytest.raises(PackageError, match="unpacks to more than"):
        unpack(target, (member, content))


def make_huge_member() -> bytes:
    """The archive says that a member is 9 GB large."""
    return AR_MAGIC + make_ar_header("debian-binary", 9_999_999_999) + b"2.0\n" + make_ar({"data.tar.xz": b""})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not a Debian package"),
        (b"<html>captive portal</html>", "not a Debian package"),
        (AR_MAGIC, "has no data.tar"),
        (make_ar({"debian-binary": b"2.0\n"}), "has no data.tar"),
        (make_huge_member(), "has no data.tar"),
        (AR_MAGIC + make_ar_header("data.tar.xz", 9_999_999_999) + make_tar([])[:-40], "is damaged"),
        (AR_MAGIC + struct.pack("60s", b"data.tar.xz"), "has no data.tar"),
        (make_ar({"data.tar.xz": b"not compressed"}), "is damaged"),
        (make_ar({"data.tar.gz": make_tar([make_file("x", bytes(5000))], "gz")[:-30]}), "is damaged"),
        (make_ar({"data.tar.gz": b"\x1f\x8b\x08\x00" + b"\xff" * 100}), "is damaged"),
        (make_ar({"data.tar.zst": b""}), "compressed as data.tar.zst, which is not supported"),
        (make_ar({"data.tar": b"x" * 600}), "is damaged"),
    ],
)
def test_a_file_that_is_no_package_is_refused(target: Path, content: bytes, sentence: str) -> None:
    with pytest.raises(PackageError, match=sentence):
        unpack_file(target, content)
    assert not list(target.iterdir())


@pytest.mark.parametrize("compression", ["xz", "gz", ""])
def test_each_usual_compression_is_unpacked(target: Path, compression: str) -> None:
    name = f"data.tar.{compression}".rstrip(".")
    unpack_file(target, make_ar({name: make_tar([make_file("usr/x", b"content")], compression)}))
    assert (target / "usr/x").read_bytes() == b"content"


def test_the_control_file_is_read() -> None:
    package = make_deb({"Package": "postgresql-17-own", "Depends": "postgresql-17"}, [])
    assert deb_file.read_control(io.BytesIO(package)) == {"Package": "postgresql-17-own", "Depends": "postgresql-17"}
    with pytest.raises(PackageError, match="no control file"):
        deb_file.read_control(io.BytesIO(make_ar({"control.tar.xz": make_tar([make_file("md5sums")])})))
