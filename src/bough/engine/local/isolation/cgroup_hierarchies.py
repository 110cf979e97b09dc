"""Where on this machine control groups can be made, read off what the kernel says about us.

Version 1 has a tree for every controller, and our groups go below our own. Version 2 has one tree,
in which a group with limited children cannot hold processes: there our groups go beside our own. So
a service whose computes outlive it can be started again in the group it had; systemd refuses to
start one whose group has become an inner one.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CONTROLLERS = ("memory", "cpu", "pids")


@dataclass(frozen=True, slots=True)
class CgroupHierarchy:
    version: int
    mount_point: Path  # where it is mounted
    own_group: Path  # the group this process is in
    controllers: tuple[str, ...]  # those of `CONTROLLERS` that a child of `place` could have

    @property
    def parent_group(self) -> Path:
        """The group below which ours are made."""
        return self.own_group.parent if self.version == 2 and self.own_group != self.mount_point else self.own_group

    @property
    def is_container(self) -> bool:
        """We are at the top, and it is not the kernel's own, which alone may hold processes and limit groups."""
        return self.own_group == self.mount_point and (self.mount_point / "cgroup.type").exists()


def read_hierarchies() -> list[CgroupHierarchy]:
    """The mounted ones; none where the kernel tells nothing."""
    try:
        return parse_hierarchies(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError:
        return []


def parse_hierarchies(mounts: str, membership: str) -> list[CgroupHierarchy]:
    own = _own_groups(membership)
    found: list[CgroupHierarchy] = []
    for line in mounts.splitlines():
        words = line.split()
        kind, options = words[words.index("-") + 1], words[-1]
        if kind == "cgroup2":
            found += _hierarchy(2, words, own.get(""), ())
        elif kind == "cgroup":
            known = tuple(name for name in CONTROLLERS if name in options.split(","))
            found += _hierarchy(1, words, own.get(known[0]), known) if known else []
    return found


def _own_groups(membership: str) -> dict[str, str]:
    """Controller → path of the group; version 2 has the empty name."""
    groups: dict[str, str] = {}
    for line in membership.splitlines():
        _number, names, path = line.split(":", 2)
        groups |= dict.fromkeys(names.split(","), path)
    return groups


def _hierarchy(version: int, words: list[str], own: str | None, controllers: tuple[str, ...]) -> list[CgroupHierarchy]:
    """One, or none when our group is outside of what is mounted, as in some containers."""
    root, top = words[3].rstrip("/"), Path(words[4])
    if own is None or not (own + "/").startswith(root + "/"):
        return []
    inside = CgroupHierarchy(version, top, top / own.removeprefix(root).strip("/"), controllers)
    if version == 1:
        return [inside]
    return [CgroupHierarchy(2, inside.mount_point, inside.own_group, read_available_controllers(inside.parent_group))]


def read_available_controllers(group: Path) -> tuple[str, ...]:
    """The controllers that a group of version 2 may hand on."""
    try:
        names = (group / "cgroup.controllers").read_text().split()
    except OSError:
        return ()
    return tuple(name for name in CONTROLLERS if name in names)


def enable_controllers(group: Path, controllers: Sequence[str]) -> tuple[str, ...]:
    """Children of the group can be limited from now on; the controllers for which that is so."""
    for name in controllers:
        with suppress(OSError):  # another one may work
            (group / "cgroup.subtree_control").write_text(f"+{name}")
    enabled = (group / "cgroup.subtree_control").read_text().split()
    return tuple(name for name in controllers if name in enabled)


def move_processes_to_child(group: Path, name: str) -> None:
    """Processes of the group move into a child: one that limits its children cannot hold any."""
    child = group / name
    child.mkdir(exist_ok=True)
    while pids := read_pids(group) - {0}:  # what runs outside of our sight is 0, and cannot be moved
        for pid in pids:
            with suppress(ProcessLookupError):
                (child / "cgroup.procs").write_text(str(pid))


def read_pids(group: Path) -> set[int]:
    return {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
