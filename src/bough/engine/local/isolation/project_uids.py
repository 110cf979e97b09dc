"""Allocate user ids to projects.

A home records them as symbolic links, `uids/200003 -> quiet-sea-12345678`, which are created atomically with their
content. A folder of the host records which home uses which id, so that two homes never allocate the same one.
"""

import grp
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bough.config import Settings
from bough.engine.local.durable_files import sync_folder
from bough.engine.local.file_lock import hold_file_lock
from bough.engine.local.isolation import processes, uid_cleanup
from bough.engine.port import EngineError
from bough.ids import ProjectId


class ProjectUids:
    def __init__(self, settings: Settings) -> None:
        self._first, self._last = settings.project_uids
        self._home = settings.home / "uids"
        self._host = settings.sockets.parent / "uids"
        self._known: dict[ProjectId, int] = {}

    def ensure(self, project: ProjectId) -> int:
        if project in self._known:
            return self._known[project]
        with self._locked():
            allocated = self._read_allocated()
            uid = allocated[project] if project in allocated else self._allocate(project, set(allocated.values()))
        self._known[project] = uid
        return uid

    def find(self, project: ProjectId) -> int | None:
        return self._known.get(project)

    def reassign(self, project: ProjectId, other: ProjectId) -> None:
        """Atomically give the id of one project to another."""
        if other in self._known:
            raise EngineError("The project already has a user id.")
        uid = self._known[project]
        temporary = self._home / f".{uid}.new"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(other)
        temporary.rename(self._home / str(uid))
        sync_folder(self._home)
        del self._known[project]
        self._known[other] = uid

    def release(self, project: ProjectId) -> None:
        """Make the id available again, after removing everything that belongs to it."""
        with self._locked():
            uid = self._read_allocated().get(project)
            self._known.pop(project, None)
        if uid is None:
            return
        uid_cleanup.remove_all_of_user(uid)  # before the id is available again, and without holding the lock
        with self._locked():
            self._unclaim(uid)

    def ensure_claimed(self) -> None:
        """Claim the ids of this home again, because a boot clears the host's folder. Clean up after a crash."""
        with self._locked():
            self._known = self._read_allocated()
            self._remove_leftovers()
            for project, uid in self._known.items():
                if not self._claim(uid):
                    raise EngineError(
                        f"User id {uid} of project {project} is also used by {self._claimant(uid).parent.parent}: "
                        "stop that installation, or set a separate range for one of them with project_uids.",
                        transient=False,
                    )

    def list_projects(self) -> frozenset[ProjectId]:
        return frozenset(self._known)

    def _remove_leftovers(self) -> None:
        for link in self._home.glob(".*"):
            link.unlink()
        for claim in self._host.glob("[0-9]*"):
            if self._claimant(int(claim.name)) == self._home / claim.name and not os.path.lexists(claim.readlink()):
                claim.unlink(missing_ok=True)

    def _allocate(self, project: ProjectId, used: set[int]) -> int:
        for uid in range(self._first, self._last):
            if uid in used or _is_system_id(uid) or not self._claim(uid):
                continue
            try:
                (self._home / str(uid)).symlink_to(project)
                sync_folder(self._home)
            except OSError:
                self._unclaim(uid)
                raise
            return uid
        raise EngineError(
            "All user ids for projects are in use: widen the setting project_uids and restart.",
            transient=False,
        )

    def _read_allocated(self) -> dict[ProjectId, int]:
        links = [link for link in self._home.iterdir() if link.name.isdigit()]
        return {ProjectId(str(link.readlink())): int(link.name) for link in links}

    def _claim(self, uid: int) -> bool:
        """Claim the id for this home. The id of a deleted home can be claimed if none of its computes runs."""
        own_link = self._home / str(uid)
        claim = self._host / str(uid)
        if os.path.lexists(claim):
            if self._claimant(uid) == own_link:
                return True
            if os.path.lexists(self._claimant(uid)):
                return False
            if not os.path.lexists(own_link) and any(processes.list_pids_of_user(uid)):
                return False
            claim.unlink(missing_ok=True)
        claim.symlink_to(own_link)
        return True

    def _unclaim(self, uid: int) -> None:
        (self._home / str(uid)).unlink(missing_ok=True)
        (self._host / str(uid)).unlink(missing_ok=True)

    def _claimant(self, uid: int) -> Path:
        return (self._host / str(uid)).readlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with hold_file_lock(self._host / ".lock"):
            yield


def _is_system_id(uid: int) -> bool:
    """Return whether a user or a group of the machine has the id: computes use both."""
    for look_up in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look_up(uid)
            return True
    return False
