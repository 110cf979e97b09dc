"""Who a compute runs as, and what it is given when it starts.

As root each project has a user id of its own, so one tenant's code cannot touch another's files or
processes. As an ordinary user everything runs as that user and there is no such wall.
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

# Nothing of ours leaks into a compute: no secret, no library path, no locale.
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
        """The project's user; a new project gets one."""
        if not self.has_isolation:
            return current_identity()
        uid = self._uids.ensure(project)
        return Identity(uid, uid)

    def find_identity(self, project: ProjectId) -> Identity | None:
        """The user of a project that has one already."""
        if not self.has_isolation:
            return current_identity()
        uid = self._uids.find(project)
        return None if uid is None else Identity(uid, uid)

    def list_projects(self) -> frozenset[ProjectId]:
        """The projects that have a user of their own."""
        return self._uids.list_projects() if self.has_isolation else frozenset()

    def reassign(self, project: ProjectId, other: ProjectId) -> None:
        """The user of one project is another's from now on."""
        if self.has_isolation:
            self._uids.reassign(project, other)

    def release(self, project: ProjectId) -> None:
        """The project has no file left, so its user may serve another."""
        if self.has_isolation:
            self._uids.release(project)


def current_identity() -> Identity:
    return Identity(os.geteuid(), os.getegid())


def find_initdb_identity() -> Identity:
    """initdb wants a user with a name, and refuses root."""
    if not is_root():
        return current_identity()
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise EngineError("This machine has no user `nobody`, which initdb needs: add it.", transient=False) from None
    return Identity(nobody.pw_uid, nobody.pw_gid)


def build_popen_options(identity: Identity) -> dict[str, Any]:
    """Arguments of `subprocess.Popen` for a process that outlives us and inherits nothing.

    No `preexec_fn`: it runs Python between fork and exec, which may deadlock under threads.
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
