"""The named users that connect to computes: that of the control process and that of the gateway.

All installations on a machine share the user of the gateway. The first one adds it.
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

_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
_NO_SHELL = "/usr/sbin/nologin"


@dataclass(frozen=True, slots=True)
class SocketUsers:
    """Names of the users that may connect to the socket of a compute, for peer authentication."""

    control: str
    gateway: str

    @property
    def gateway_gid(self) -> int:
        """The group that may traverse the socket folders."""
        if self.gateway == self.control:
            return os.getegid()
        try:
            return pwd.getpwnam(self.gateway).pw_gid
        except KeyError:
            raise _cannot_add(self.gateway, "it was deleted") from None


def resolve_socket_users(settings: Settings) -> SocketUsers:
    """Without root the gateway runs as the same user as the control process."""
    control = current_user_name()
    return SocketUsers(control, settings.gateway_user if is_root() else control)


def current_user_name() -> str:
    """Return the name of the current user, as Postgres sees it in peer authentication."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise EngineError(
            f"The user id {os.geteuid()} has no name on this machine, so Postgres would reject its connections: "
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
    return shutil.which("useradd", path=_PATH) is not None


def useradd_command_line(name: str) -> str:
    return " ".join(_command(name))


def ensure_user(name: str, lock: Path) -> None:
    """Add the user if it is missing. Requires root. A lock serializes installations that start at the same time."""
    if not user_exists(name):
        with hold_file_lock(lock):
            if not user_exists(name):
                _add(name)


def _add(name: str) -> None:
    try:
        result = subprocess.run(
            _command(name), env={"PATH": _PATH, "LC_ALL": "C"}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise _cannot_add(name, "useradd is missing") from None
    if not user_exists(name):
        raise _cannot_add(
            name, result.stderr.strip().removeprefix("useradd: ") or f"useradd exits with {result.returncode}"
        )


def _command(name: str) -> list[str]:
    options = ("--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", _NO_SHELL, "--user-group")
    return ["useradd", *options, name]


def _cannot_add(name: str, reason: str) -> EngineError:
    return EngineError(
        f"The gateway needs a user {name}, which cannot be added ({reason}): run `{useradd_command_line(name)}`, "
        "or set gateway_user to another user.",
        transient=False,
    )
