"""User ids lent to projects.

A home keeps them as links, `uids/200003 -> quiet-sea-12345678`: a link is made with its content in
one step. The host keeps who lends which id, so that two homes never lend the same one.
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
            lent = self._read_allocated()
            uid = lent[project] if project in lent else self._allocate(project, set(lent.values()))
        self._known[project] = uid
        return uid

    def find(self, project: ProjectId) -> int | None:
        return self._known.get(project)

    def reassign(self, project: ProjectId, other: ProjectId) -> None:
        """The id of one project becomes another's, in one step."""
        if other in self._known:
            raise EngineError("The project has a user id of its own already.")
        uid = self._known[project]
        fresh = self._home / f".{uid}.new"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(other)
        fresh.rename(self._home / str(uid))
        sync_folder(self._home)
        del self._known[project]
        self._known[other] = uid

    def release(self, project: ProjectId) -> None:
        """The id may be lent again, and nothing of the project is left for whoever gets it."""
        with self._locked():
            uid = self._read_allocated().get(project)
            self._known.pop(project, None)
        if uid is None:
            return
        uid_cleanup.remove_all_of_user(uid)  # while the id is still lent, and others need not wait
        with self._locked():
            self._unclaim(uid)

    def ensure_claimed(self) -> None:
        """The host forgets at boot which ids this home lends: tell it again, and what a crash left undone."""
        with self._locked():
            self._known = self._read_allocated()
            self._tidy()
            for project, uid in self._known.items():
                if not self._claim(uid):
                    raise EngineError(
                        f"User id {uid} of project {project} is also used by {self._claimant(uid).parent.parent}: "
                        "stop that installation, or give one of the two its own range with project_uids.",
                        transient=False,
                    )

    def list_projects(self) -> frozenset[ProjectId]:
        return frozenset(self._known)

    def _tidy(self) -> None:
        for link in self._home.glob(".*"):
            link.unlink()
        for claim in self._host.glob("[0-9]*"):
            if self._claimant(int(claim.name)) == self._home / claim.name and not os.path.lexists(claim.readlink()):
                claim.unlink(missing_ok=True)

    def _allocate(self, project: ProjectId, taken: set[int]) -> int:
        for uid in range(self._first, self._last):
            if uid in taken or _is_system_id(uid) or not self._claim(uid):
                continue
            try:
                (self._home / str(uid)).symlink_to(project)
                sync_folder(self._home)
            except OSError:
                self._unclaim(uid)
                raise
            return uid
        raise EngineError(
            "Every user id for projects is in use: widen the setting project_uids and restart.", transient=False
        )

    def _read_allocated(self) -> dict[ProjectId, int]:
        links = [link for link in self._home.iterdir() if link.name.isdigit()]
        return {ProjectId(str(link.readlink())): int(link.name) for link in links}

    def _claim(self, uid: int) -> bool:
        """Take the id for this home; one whose home is gone may be taken over, unless its computes still run."""
        ours = self._home / str(uid)
        claim = self._host / str(uid)
        if os.path.lexists(claim):
            if self._claimant(uid) == ours:
                return True
            if os.path.lexists(self._claimant(uid)):
                return False
            if not os.path.lexists(ours) and any(processes.list_pids_of_user(uid)):
                return False
            claim.unlink(missing_ok=True)
        claim.symlink_to(ours)
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
    """A user of the machine, or a group: computes take both numbers."""
    for look_up in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look_up(uid)
            return True
    return False
