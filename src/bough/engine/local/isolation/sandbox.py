"""The user and the environment of a compute.

When the platform runs as root, each project has its own user id, so that one tenant's code cannot access the files and
processes of another. Otherwise all computes run as the platform's user, without this isolation.
"""

import os
import pwd
import subprocess
from dataclasses import dataclass
from typing import Any

from bough.config import Settings, is_root
from bough.engine.local.isolation import system_users
from bough.engine.local.isolation.project_uids import ProjectUids
from bough.engine.port import EngineError
from bough.ids import ProjectId

# Computes inherit nothing else: no secret, no library path, no locale.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True, slots=True)
class Identity:
    """The user and group that a project's files and processes belong to."""

    uid: int
    gid: int

    @property
    def is_current_user(self) -> bool:
        return self.uid == os.geteuid()


class Sandbox:
    def __init__(self, settings: Settings) -> None:
        self.has_isolation = is_root()
        self.socket_users = system_users.resolve_socket_users(settings)
        self._uids = ProjectUids(settings)
        self._accounts_lock = settings.sockets.parent / "accounts.lock"

    def ensure_ready(self) -> None:
        if self.has_isolation:
            system_users.ensure_user(self.socket_users.gateway, self._accounts_lock)
            self._uids.ensure_claimed()

    def ensure_identity(self, project: ProjectId) -> Identity:
        """Return the project's user. A new project gets one."""
        if not self.has_isolation:
            return current_identity()
        uid = self._uids.ensure(project)
        return Identity(uid, uid)

    def find_identity(self, project: ProjectId) -> Identity | None:
        """Return the project's user, or None if it has none."""
        if not self.has_isolation:
            return current_identity()
        uid = self._uids.find(project)
        return None if uid is None else Identity(uid, uid)

    def list_projects(self) -> frozenset[ProjectId]:
        """Return the projects that have a user."""
        return self._uids.list_projects() if self.has_isolation else frozenset()

    def reassign(self, project: ProjectId, other: ProjectId) -> None:
        """Give the user of one project to another."""
        if self.has_isolation:
            self._uids.reassign(project, other)

    def release(self, project: ProjectId) -> None:
        """Make the user of a project without files available again."""
        if self.has_isolation:
            self._uids.release(project)


def current_identity() -> Identity:
    return Identity(os.geteuid(), os.getegid())


def find_initdb_identity() -> Identity:
    """initdb requires a user with a name and refuses to run as root."""
    if not is_root():
        return current_identity()
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise EngineError("This machine has no user `nobody`, which initdb needs: add it.", transient=False) from None
    return Identity(nobody.pw_uid, nobody.pw_gid)


def build_popen_options(identity: Identity) -> dict[str, Any]:
    """Return Popen arguments for a process that outlives this one and inherits nothing.

    They use no `preexec_fn`, which runs Python between fork and exec and may deadlock in a process with threads.
    """
    options: dict[str, Any] = {
        "env": ENVIRONMENT,
        "cwd": "/",
        "stdin": subprocess.DEVNULL,
        "close_fds": True,
        "start_new_session": True,
        "umask": 0o077,
    }
    if not identity.is_current_user:
        options |= {"user": identity.uid, "group": identity.gid, "extra_groups": []}
    return options
