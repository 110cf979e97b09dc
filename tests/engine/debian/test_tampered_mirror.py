"""A mirror that lies in one of its parts: one sentence says so, nothing is installed, and the next attempt works."""

import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from bough.engine.local.debian import apt_configuration
from bough.engine.local.debian.apt_configuration import AptConfiguration
from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.mirrors import MAX_INDEX_BYTES
from engine.debian.conftest import Build, list_managed
from support.deb_files import make_file
from support.debian_mirror import SUITE, DebianMirror, make_key

Tamper = Callable[[DebianMirror], object]


def in_release(mirror: DebianMirror) -> Path:
    return mirror.folder / f"dists/{SUITE}/InRelease"


def change_signed_text(mirror: DebianMirror) -> None:
    mirror.change(in_release(mirror), b"Suite: stable", b"Suite: stablf")


def change_signature(mirror: DebianMirror) -> None:
    path = in_release(mirror)
    lines = path.read_bytes().split(b"\n")
    start = lines.index(b"-----BEGIN PGP SIGNATURE-----") + 3
    lines[start] = lines[start][::-1]
    path.write_bytes(b"\n".join(lines))


def remove_signature(mirror: DebianMirror) -> None:
    text = in_release(mirror).read_bytes()
    start, end = text.index(b"Origin:"), text.index(b"-----BEGIN PGP SIGNATURE-----")
    in_release(mirror).write_bytes(text[start:end])


def append_unsigned_text(mirror: DebianMirror) -> None:
    """Text before the signed one does not count, even if it looks like an index."""
    mirror.add("libpq5", "99", [])
    in_release(mirror).write_bytes(b"Origin: Debian\nCodename: trixie\nSHA256:\n\n" + in_release(mirror).read_bytes())
    mirror.packages_file().write_bytes(lzma.compress(b"Package: libpq5\n"))


def sign_with_another_key(mirror: DebianMirror) -> None:
    mirror.publish(key=make_key("somebody else"))


def sign_and_publish_another_key(mirror: DebianMirror) -> None:
    """A key is accepted by its fingerprint, not because the mirror has it in the keyring package."""
    mirror.add_keyring(make_key("somebody else"))
    mirror.publish(key=make_key("somebody else"))


def publish_both_keys(mirror: DebianMirror) -> None:
    mirror.add_keyring(mirror.key, make_key("somebody else"))
    mirror.publish(key=make_key("somebody else"))


def replay_an_old_index(mirror: DebianMirror) -> None:
    mirror.publish(Valid_Until="Sat, 01 Nov 2025 10:00:00 UTC")


def state_no_readable_date(mirror: DebianMirror) -> None:
    mirror.publish(Valid_Until="tomorrow")


def answer_with_another_suite(mirror: DebianMirror) -> None:
    mirror.publish(Codename="bookworm", Suite="oldstable")


def answer_with_another_distribution(mirror: DebianMirror) -> None:
    mirror.publish(Origin="Debian Backports")


def change_packages(mirror: DebianMirror) -> None:
    content = lzma.decompress(mirror.packages_file().read_bytes()).replace(b"libpq5", b"libpq6")
    mirror.packages_file().write_bytes(lzma.compress(content))


def truncate_packages(mirror: DebianMirror) -> None:
    mirror.packages_file().write_bytes(mirror.packages_file().read_bytes()[:-20])


def enlarge_packages(mirror: DebianMirror) -> None:
    mirror.packages_file().write_bytes(mirror.packages_file().read_bytes() + bytes(2**20))


def sign_damaged_packages(mirror: DebianMirror) -> None:
    mirror.publish_packages(b"Package: x\n", b"not compressed")


def sign_truncated_packages(mirror: DebianMirror) -> None:
    content = lzma.decompress(mirror.packages_file().read_bytes())
    mirror.publish_packages(content, lzma.compress(content)[:-30])


def sign_a_bomb(mirror: DebianMirror) -> None:
    """The compressed file unpacks to more than the index says."""
    mirror.publish_packages(b"Package: x\n", lzma.compress(bytes(2**21)))


def sign_a_huge_index(mirror: DebianMirror) -> None:
    plain = f" {'0' * 64} {2**40} main/binary-{mirror.architecture}/Packages"
    text = f"Origin: Debian\nCodename: {SUITE}\nSHA256:\n{plain}\n{plain}.xz\n"
    mirror.sign(text.encode())


def sign_a_huge_keyring(mirror: DebianMirror) -> None:
    mirror.stanzas[SUITE]["debian-archive-keyring"]["Size"] = str(2**40)
    mirror.publish()


def sign_a_keyring_that_unpacks_to_a_lot(mirror: DebianMirror) -> None:
    mirror.add("debian-archive-keyring", "2025.1", [make_file("usr/share/keyrings/x", bytes(2**25))])
    mirror.publish()


def sign_an_index_without_a_keyring(mirror: DebianMirror) -> None:
    del mirror.stanzas[SUITE]["debian-archive-keyring"]
    mirror.publish()


def sign_an_index_of_another_architecture(mirror: DebianMirror) -> None:
    mirror.sign(f"Origin: Debian\nCodename: {SUITE}\nSHA256:\n {'0' * 64} 1 main/binary-s390x/Packages\n".encode())


def send_an_endless_index(mirror: DebianMirror) -> None:
    in_release(mirror).write_bytes(bytes(MAX_INDEX_BYTES + 1))


def change_a_package(mirror: DebianMirror) -> None:
    path = mirror.add_server()
    mirror.publish()
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def truncate_a_package(mirror: DebianMirror) -> None:
    path = mirror.add_server()
    mirror.publish()
    path.write_bytes(path.read_bytes()[:-1])


def enlarge_a_package(mirror: DebianMirror) -> None:
    path = mirror.add_server()
    mirror.publish()
    path.write_bytes(path.read_bytes() + bytes(2**20))


def forget_a_package(mirror: DebianMirror) -> None:
    mirror.add_server().unlink()
    mirror.publish()


def forget_a_dependency(mirror: DebianMirror) -> None:
    del mirror.stanzas[SUITE]["libpq5"]
    mirror.publish()


def forget_the_suite(mirror: DebianMirror) -> None:
    in_release(mirror).unlink()


NO_SIGNATURE = "has no valid signature of Debian's archive keys, so it is not used"
WRONG_HASH = "does not have the expected size and hash, so it is not used"
TOO_LARGE = "larger than any such file of Debian"
DAMAGED = "is damaged or does not have the size"

CASES = {
    change_signed_text: NO_SIGNATURE,
    change_signature: NO_SIGNATURE,
    remove_signature: NO_SIGNATURE,
    append_unsigned_text: WRONG_HASH,
    sign_with_another_key: NO_SIGNATURE,
    sign_and_publish_another_key: NO_SIGNATURE,
    publish_both_keys: NO_SIGNATURE,
    replay_an_old_index: r"index of trixie expired \(Sat, 01 Nov 2025",
    state_no_readable_date: r"index of trixie expired \(tomorrow\)",
    answer_with_another_suite: "index of trixie belongs to Debian bookworm",
    answer_with_another_distribution: "index of trixie belongs to Debian Backports",
    change_packages: WRONG_HASH,
    truncate_packages: WRONG_HASH,
    enlarge_packages: WRONG_HASH,
    sign_damaged_packages: DAMAGED,
    sign_truncated_packages: DAMAGED,
    sign_a_bomb: DAMAGED,
    sign_a_huge_index: TOO_LARGE,
    sign_a_huge_keyring: TOO_LARGE,
    sign_a_keyring_that_unpacks_to_a_lot: "unpacks to more than",
    sign_an_index_without_a_keyring: "no package debian-archive-keyring",
    sign_an_index_of_another_architecture: "suite trixie has no main/binary-",
    send_an_endless_index: TOO_LARGE,
    change_a_package: WRONG_HASH,
    truncate_a_package: WRONG_HASH,
    enlarge_a_package: WRONG_HASH,
    forget_a_package: "No mirror from the setting debian_mirror has the file pool/main/postgresql-17_",
    forget_a_dependency: "no package libpq5, which postgresql-17 needs",
    forget_the_suite: "has Debian's suite trixie: set debian_mirror",
}


@pytest.mark.parametrize(("tamper", "sentence"), CASES.items(), ids=[each.__name__ for each in CASES])
def test_what_a_mirror_changed_is_refused(
    mirror: DebianMirror, build: Build, cache: Path, tamper: Tamper, sentence: str
) -> None:
    tamper(mirror)
    with pytest.raises(PackageError, match=sentence) as refused:
        build()
    assert not refused.value.transient
    assert not list_managed(cache)
    assert {path.name for path in (cache / "postgres").glob("*")} <= {".lock"}

    mirror.add_keyring()
    mirror.add_server()
    mirror.publish()
    assert build().version == "17.12"
    assert [path.name for path in cache.iterdir()] == ["postgres"], "no download is left over"


def test_the_signature_of_each_suite_counts(mirror: DebianMirror, build: Build, cache: Path) -> None:
    mirror.add_server("17.99-0+deb13u1", suite=f"{SUITE}-security")
    mirror.publish(f"{SUITE}-security", key=make_key("somebody else"))
    with pytest.raises(PackageError, match=f"index {SUITE}-security has no valid signature"):
        build()
    mirror.publish(f"{SUITE}-security")
    assert build().version == "17.99"
    assert [each.version for each in list_managed(cache)] == ["17.99"]


def test_an_expired_index_is_used_if_the_machine_says_so(
    mirror: DebianMirror, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt_configuration, "read", lambda: AptConfiguration(checks_expiry=False))
    mirror.publish(Valid_Until="Sat, 01 Nov 2025 10:00:00 UTC")
    assert build().version == "17.12"
