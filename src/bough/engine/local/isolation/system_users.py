"""Users with a name: ours, and the gateway's, which may pass the socket folders of computes.

The gateway's is a user of the machine, shared by all installations on it, and added by the first.
"""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bough.config import Settings, is_root
from bough.engine.local.file_lock import hold_file_lock
from bough.engine.port import EngineError

_SEARCHED = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_NO_SHELL = "/usr/sbin/nologin"


@dataclass(frozen=True, slots=True)
class SocketUsers:
    """Who gets in by a compute's socket, by the names the kernel tells Postgres."""

    control: str
    gateway: str

    @property
    def gateway_gid(self) -> int:
        """The group that may pass the socket folders."""
        if self.gateway == self.control:
            return os.getegid()
        try:
            return pwd.getpwnam(self.gateway).pw_gid
        except KeyError:
            raise _missing(self.gateway, "it is gone") from None


def resolve_socket_users(settings: Settings) -> SocketUsers:
    """Without root the gateway runs as we do."""
    ours = current_user_name()
    return SocketUsers(ours, settings.gateway_user if is_root() else ours)


def current_user_name() -> str:
    """The name under which Postgres knows us when we come by its socket."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise EngineError(
            f"The user id {os.geteuid()} has no name on this machine, so Postgres would not let us in: "
            "run as a user that is listed in /etc/passwd.",
            transient=False,
        ) from None


def user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def can_add_users() -> bool:
    return shutil.which("useradd", path=_SEARCHED) is not None


def useradd_command_line(name: str) -> str:
    return " ".join(_command(name))


def ensure_user(name: str, lock: Path) -> None:
    """The user is there; as root. Installations that start at once share it, and one of them adds it."""
    if not user_exists(name):
        with hold_file_lock(lock):
            if not user_exists(name):
                _add(name)


def _add(name: str) -> None:
    try:
        done = subprocess.run(
            _command(name), env={"PATH": _SEARCHED, "LC_ALL": "C"}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise _missing(name, "useradd is missing") from None
    if not user_exists(name):
        raise _missing(name, done.stderr.strip().removeprefix("useradd: ") or f"useradd exits with {done.returncode}")


def _command(name: str) -> list[str]:
    options = ("--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", _NO_SHELL, "--user-group")
    return ["useradd", *options, name]


def _missing(name: str, why: str) -> EngineError:
    return EngineError(
        f"The gateway needs a user {name}, which cannot be added ({why}): run `{useradd_command_line(name)}`, "
        "or name another user with the setting gateway_user.",
        transient=False,
    )
