"""Downloads from mirrors that answer badly: slowly, not at all, from elsewhere, or in the middle of a change."""

import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from bough.engine.local.debian import apt_configuration, mirrors
from bough.engine.local.debian.apt_configuration import AptConfiguration
from bough.engine.local.debian.errors import FileMissing, PackageError
from bough.engine.local.debian.mirrors import ExpectedFile, Mirrors
from engine.debian.conftest import Build
from support.debian_mirror import DebianMirror, FolderHandler, FolderServer, serve_folder, sha256
from support.program import find_free_port

CONTENT = bytes(range(256)) * 400
PATH = "pool/main/file.deb"


@pytest.fixture
def site_with_a_file(site: FolderServer) -> FolderServer:
    (site.folder / PATH).write_bytes(CONTENT)
    return site


def expect(content: bytes = CONTENT) -> ExpectedFile:
    return ExpectedFile(path=PATH, size=len(content), sha256=sha256(content))


def fetch(setting: str, expected: ExpectedFile | None = None) -> bytes:
    target = io.BytesIO()
    received: list[int] = []
    with Mirrors.open(setting) as opened:
        assert opened is not None
        opened.fetch(expected or expect(), target, received.append)
    assert sum(received) == len(target.getvalue()), "progress counts a repeated part once"
    return target.getvalue()


def fail(status: int) -> Callable[[FolderHandler], bool]:
    def act(request: FolderHandler) -> bool:
        request.send_error(status)
        return False

    return act


def fail_first(times: int) -> Callable[[FolderHandler], bool]:
    """Close the connection in the middle of the file, so many times."""

    def act(request: FolderHandler) -> bool:
        if len(request.site.requests) > times:
            return True
        request.send_response(200)
        request.send_header("Content-Length", str(len(CONTENT)))
        request.end_headers()
        request.wfile.write(CONTENT[:1000])
        return False

    return act


def redirect(url: str) -> Callable[[FolderHandler], bool]:
    def act(request: FolderHandler) -> bool:
        request.send_response(302)
        request.send_header("Location", url)
        request.end_headers()
        return False

    return act


def stall(request: FolderHandler) -> bool:
    request.site.closing.wait()
    return False


def send_slowly(request: FolderHandler) -> bool:
    """Send a byte now and then, so that no read takes long."""
    request.send_response(200)
    request.send_header("Content-Length", str(len(CONTENT)))
    request.end_headers()
    with suppress(OSError):
        while not request.site.closing.wait(0.01):
            request.wfile.write(b"x")
    return False


def test_an_interrupted_transfer_is_repeated(site_with_a_file: FolderServer) -> None:
    site_with_a_file.behaviours[PATH] = fail_first(2)
    assert fetch(site_with_a_file.url) == CONTENT
    assert site_with_a_file.requests == [f"/{PATH}"] * 3


def test_a_transfer_that_is_always_interrupted_fails(site_with_a_file: FolderServer) -> None:
    site_with_a_file.behaviours[PATH] = fail_first(1000)
    with pytest.raises(PackageError, match=r"mirror from the setting debian_mirror does not answer \(http://127"):
        fetch(site_with_a_file.url)


def test_an_error_of_the_mirror_is_repeated_and_named(site_with_a_file: FolderServer) -> None:
    site_with_a_file.behaviours[PATH] = fail(503)
    with pytest.raises(
        PackageError, match=r"does not answer \(http://127[0-9.:]+: HTTP status 503\). Check the network"
    ):
        fetch(site_with_a_file.url)
    assert len(site_with_a_file.requests) == 3


@pytest.mark.parametrize("status", [404, 403, 410])
def test_a_file_that_is_not_there_is_missing(site_with_a_file: FolderServer, status: int) -> None:
    site_with_a_file.behaviours[PATH] = fail(status)
    with pytest.raises(FileMissing, match=f"No mirror from the setting debian_mirror has the file {PATH}"):
        fetch(site_with_a_file.url)
    assert len(site_with_a_file.requests) == 1


def test_a_mirror_that_does_not_answer_is_given_up(
    site_with_a_file: FolderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "_TIMEOUT", 0.1)
    site_with_a_file.behaviours[PATH] = stall
    with pytest.raises(PackageError, match="does not answer"):
        fetch(site_with_a_file.url)


def test_a_mirror_that_sends_byte_by_byte_is_given_up(
    site_with_a_file: FolderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "_PATIENCE_SECONDS", 0.1)
    site_with_a_file.behaviours[PATH] = send_slowly
    with pytest.raises(PackageError, match="the transfer is too slow"):
        fetch(site_with_a_file.url)


def test_the_next_mirror_is_asked(site_with_a_file: FolderServer, tmp_path: Path) -> None:
    closed = f"http://127.0.0.1:{find_free_port()}"
    (tmp_path / "empty").mkdir()
    with serve_folder(tmp_path / "empty") as empty:
        assert fetch(f"{closed} {empty.url}, {site_with_a_file.url}") == CONTENT
        assert empty.requests == [f"/{PATH}"]


def test_a_redirect_is_followed_and_its_content_checked(site_with_a_file: FolderServer, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "elsewhere" / "file"
    with serve_folder(tmp_path / "elsewhere") as elsewhere:
        site_with_a_file.behaviours[PATH] = redirect(f"{elsewhere.url}/file")
        file.write_bytes(CONTENT)
        assert fetch(site_with_a_file.url) == CONTENT
        file.write_bytes(CONTENT[::-1])
        with pytest.raises(PackageError, match="does not have the expected size and hash"):
            fetch(site_with_a_file.url)


@pytest.mark.parametrize("target", [f"/{PATH}", "file:///etc/passwd", "gopher://127.0.0.1/x", "http://[", "//"])
def test_a_redirect_to_nowhere_fails(site_with_a_file: FolderServer, target: str) -> None:
    site_with_a_file.behaviours[PATH] = redirect(target)
    with pytest.raises(PackageError, match="does not answer"):
        fetch(site_with_a_file.url)


def test_a_folder_is_a_mirror(site_with_a_file: FolderServer) -> None:
    assert fetch(f"file://{site_with_a_file.folder}") == CONTENT
    assert not site_with_a_file.requests
    with pytest.raises(FileMissing):
        fetch(f"file://{site_with_a_file.folder}", ExpectedFile(path="pool/other", size=1, sha256=""))
    with pytest.raises(PackageError, match=r"pool cannot be read: Is a directory"):
        fetch(f"file://{site_with_a_file.folder}", ExpectedFile(path="pool", size=1, sha256=""))


def test_the_security_archive_is_found_beside_the_main_one(mirror: DebianMirror, tmp_path: Path) -> None:
    """Mirrors serve both below one address, in two folders."""
    root = tmp_path / "root"
    root.mkdir()
    mirror.folder.rename(root / "debian")
    (root / "debian-security").mkdir()
    (root / "debian-security" / "pool").mkdir()
    (root / "debian-security" / "pool" / "updates").write_bytes(CONTENT)
    expected = ExpectedFile(path="pool/updates", size=len(CONTENT), sha256=sha256(CONTENT))
    assert fetch(f"file://{root}/debian/", expected) == CONTENT


def test_the_mirrors_of_apt_are_used_without_the_setting(
    site: FolderServer, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt_configuration, "read", lambda: AptConfiguration(addresses=(site.url,)))
    with Mirrors.open("") as opened:
        assert opened is not None
        assert (opened.addresses, opened.source) == ((site.url,), "apt's configuration")
    monkeypatch.setattr(apt_configuration, "read", AptConfiguration)
    with Mirrors.open("") as opened:
        assert opened is None


def test_a_password_in_an_address_is_not_shown(site: FolderServer) -> None:
    site.behaviours[PATH] = fail(500)
    with pytest.raises(PackageError) as refused:
        fetch(site.url.replace("http://", "http://user:secret@"))
    assert "secret" not in refused.value.public_message
