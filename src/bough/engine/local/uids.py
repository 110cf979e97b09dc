"""User ids lent to projects.

A home keeps them as links, `uids/200003 -> quiet-sea-12345678`: a link is made with its content in
one step. The host keeps who lends which id, so that two homes never lend the same one.
"""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bough.config import Settings
from bough.engine.local.durable import exclusive, sync_folder
from bough.engine.port import EngineError
from bough.ids import ProjectId


class Uids:
    def __init__(self, settings: Settings) -> None:
        self._first, self._last = settings.project_uids
        self._home = settings.home / "uids"
        self._host = settings.sockets.parent / "uids"
        self._known: dict[ProjectId, int] = {}

    def ensure(self, project: ProjectId) -> int:
        if project in self._known:
            return self._known[project]
        with self._alone():
            lent = self._lent()
            uid = lent[project] if project in lent else self._lend(project, set(lent.values()))
        self._known[project] = uid
        return uid

    def release(self, project: ProjectId) -> None:
        with self._alone():
            uid = self._lent().get(project)
            self._known.pop(project, None)
            if uid is None:
                return
            forget_shared_memory(uid)
            (self._home / str(uid)).unlink(missing_ok=True)
            (self._host / str(uid)).unlink(missing_ok=True)

    def ensure_claimed(self) -> None:
        """The host forgets at boot which ids this home lends: tell it again."""
        with self._alone():
            self._known = self._lent()
            for project, uid in self._known.items():
                if not self._claim(uid):
                    raise EngineError(
                        f"User id {uid} of project {project} is also used by {self._claimant(uid).parent.parent}: "
                        "stop that installation, or give one of the two its own range with project_uids.",
                        transient=False,
                    )

    def _lend(self, project: ProjectId, taken: set[int]) -> int:
        for uid in range(self._first, self._last):
            if uid in taken or _is_somebody(uid) or not self._claim(uid):
                continue
            (self._home / str(uid)).symlink_to(project)
            sync_folder(self._home)
            return uid
        raise EngineError(
            "Every user id for projects is in use: widen the setting project_uids and restart.", transient=False
        )

    def _lent(self) -> dict[ProjectId, int]:
        links = [link for link in self._home.iterdir() if link.name.isdigit()]
        return {ProjectId(str(link.readlink())): int(link.name) for link in links}

    def _claim(self, uid: int) -> bool:
        """Take the id for this home; one whose home is gone may be taken over."""
        ours = self._home / str(uid)
        claim = self._host / str(uid)
        if os.path.lexists(claim):
            if self._claimant(uid) == ours:
                return True
            if os.path.lexists(self._claimant(uid)):
                return False
            claim.unlink()
        claim.symlink_to(ours)
        return True

    def _claimant(self, uid: int) -> Path:
        return (self._host / str(uid)).readlink()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with exclusive(self._host / ".lock"):
            yield


def forget_shared_memory(uid: int) -> None:
    """What a killed Postgres left; the next who gets the id must not find it."""
    for segment in Path("/dev/shm").glob("PostgreSQL.*"):  # noqa: S108 - where POSIX shared memory is
        with suppress(FileNotFoundError):
            if segment.lstat().st_uid == uid:
                segment.unlink()


def _is_somebody(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
