"""The library that limits OpenSSL: where it is, and that a server without it does not start."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bough.config import default_cache
from bough.engine.local.installs import download
from bough.engine.local.isolation import openssl_limits
from bough.engine.port import EngineError
from support.folders import temporary_folder
from support.requirements import require_root


@pytest.fixture(scope="module")
def server() -> str:
    return download.fetch_install(17, default_cache()).program_path("postgres")


@pytest.fixture
def folder() -> Iterator[Path]:
    with temporary_folder() as made:
        yield made


def test_its_functions_do_nothing(folder: Path) -> None:
    (folder / "library").write_bytes(openssl_limits.build_library())
    library = ctypes.CDLL(str(folder / "library"))
    for function in (library.ENGINE_by_id, library.SSL_CTX_set_keylog_callback):
        function.restype = ctypes.c_void_p
        assert function(b"dynamic") is None


def test_it_is_written_once_and_again_when_it_differs(folder: Path, server: str) -> None:
    variables = openssl_limits.build_environment(server, folder, folder)
    library = folder / openssl_limits.LIBRARY
    assert variables == {"LD_PRELOAD": str(library)}
    before = library.stat()
    openssl_limits.build_environment(server, folder, folder)
    assert library.stat() == before
    library.write_bytes(b"another")
    openssl_limits.build_environment(server, folder, folder)
    assert library.read_bytes() == openssl_limits.build_library()
    assert library.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in folder.iterdir()] == [openssl_limits.LIBRARY]


def test_a_folder_with_a_space(folder: Path, server: str) -> None:
    cache = folder / "my cache"
    cache.mkdir()
    assert openssl_limits.build_environment(server, cache, folder)["LD_LIBRARY_PATH"] == str(cache)


@pytest.mark.parametrize("name", ["a:b", "a;b", "a$b"])
def test_a_folder_that_the_dynamic_linker_cannot_use(folder: Path, server: str, name: str) -> None:
    (folder / name).mkdir()
    with pytest.raises(EngineError, match="with BOUGH_CACHE"):
        openssl_limits.build_environment(server, folder / name, folder)


def test_a_server_that_does_not_load_it_is_not_started(
    folder: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openssl_limits, "build_library", lambda: b"no library")
    with pytest.raises(EngineError, match=r"does not load libbough-openssl-limits\.so"):
        openssl_limits.build_environment(server, folder, folder)


def test_a_cache_of_another_user(folder: Path, server: str) -> None:
    """Then it is in the home. As root it would not be loaded there."""
    require_root()
    (folder / "home").mkdir()
    os.chown(folder / "home", 65534, 65534)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgid(65534)
            os.setuid(65534)
            variables = openssl_limits.build_environment(server, folder, folder / "home")
            code = variables["LD_PRELOAD"] != str(folder / "home" / openssl_limits.LIBRARY)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
