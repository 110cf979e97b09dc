"""Limit what OpenSSL does in a compute for connection options that a tenant chooses.

Tenants choose the options of connections of dblink, postgres_fdw and subscriptions. With `sslkey=ENGINE:KEY`, OpenSSL
loads any file as an engine; with `sslkeylogfile`, since version 18, it writes to any file of the server. The server is
therefore started with a library of ours in front of OpenSSL's, in which the two functions do nothing. This works for
servers of the system, too, which cannot be changed.
"""

import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from bough.config import is_root
from bough.engine.local.isolation import elf_library
from bough.engine.port import EngineError

LIBRARY = "libbough-openssl-limits.so"
_FUNCTIONS = (
    "ENGINE_by_id",  # gets a name or a path
    "SSL_CTX_set_keylog_callback",
)
_RETURN_NULL = {
    "x86_64": bytes.fromhex("f30f1efa 31c0 c3"),  # endbr64; xor eax, eax; ret
    "aarch64": bytes.fromhex("5f2403d5 000080d2 c0035fd6"),  # bti c; mov x0, #0; ret
}
_SEPARATORS = ":;$"  # of the dynamic linker in both variables
_TIMEOUT_SECONDS = 20


def build_environment(server: str, cache_folder: Path, home: Path) -> dict[str, str]:
    """Return the variables for a server. Raise an EngineError if its OpenSSL could still load engines."""
    if platform.machine() not in _RETURN_NULL:
        raise EngineError(f"Computes do not run on this machine ({platform.machine()}).", transient=False)
    library = _ensure_library(cache_folder, home)
    variables = _preload(library)
    _check_loads(server, tuple(variables.items()))
    return variables


def build_library() -> bytes:
    return elf_library.build(LIBRARY, _RETURN_NULL[platform.machine()], dict.fromkeys(_FUNCTIONS, 0))


def _ensure_library(cache_folder: Path, home: Path) -> Path:
    """Return its path in the cache, where computes can load libraries.

    The cache of an ordinary user may belong to someone else. Then it is in the home, because that user's computes run
    without a mount namespace.
    """
    content = build_library()
    problem: OSError | None = None
    for folder in (cache_folder,) if is_root() else (cache_folder, home):
        library = folder / LIBRARY
        try:
            if not (library.is_file() and library.read_bytes() == content):
                _replace(library, content)
            return library
        except OSError as error:
            problem = error
    raise EngineError(
        f"A library for computes cannot be written to the cache ({problem}): set another folder with BOUGH_CACHE.",
        transient=False,
    ) from problem


def _replace(library: Path, content: bytes) -> None:
    """Homes may share the cache and start computes at any moment, so the library is never incomplete."""
    descriptor, temporary = tempfile.mkstemp(dir=library.parent, prefix=f".{LIBRARY}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o755)
            file.write(content)
        Path(temporary).rename(library)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _preload(library: Path) -> dict[str, str]:
    """A name in LD_PRELOAD ends at a space, and there is no way to escape it."""
    if any(character in str(library) for character in _SEPARATORS):
        raise EngineError(
            f"The dynamic linker cannot load {library}: set a folder without {' '.join(_SEPARATORS)} with BOUGH_CACHE.",
            transient=False,
        )
    if " " in str(library):
        return {"LD_PRELOAD": library.name, "LD_LIBRARY_PATH": str(library.parent)}
    return {"LD_PRELOAD": str(library)}


@cache
def _check_loads(server: str, variables: tuple[tuple[str, str], ...]) -> None:
    """The dynamic linker only warns if it cannot load a library of LD_PRELOAD. This lets it list what it loads."""
    environment: Mapping[str, str] = {**os.environ, **dict(variables), "LD_TRACE_LOADED_OBJECTS": "1"}
    try:
        result = subprocess.run(
            [server],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        raise EngineError(f"The server {server} cannot be started: {error.strerror}.") from error
    except subprocess.SubprocessError as error:
        raise EngineError(f"The server {server} does not run here: {error}.") from error
    if LIBRARY.encode() not in result.stdout:
        message = result.stderr.decode(errors="replace").strip().splitlines() or ["no reason was given"]
        raise EngineError(
            f"The server {server} does not load {LIBRARY}, without which tenants could load any library: "
            f"{message[0][:200]}",
            transient=False,
        )
