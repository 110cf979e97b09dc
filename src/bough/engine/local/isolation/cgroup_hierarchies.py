"""Find where control groups can be created on this machine.

Version 1 has a hierarchy for every controller; computes get groups below the group of this process. Version 2 has one
hierarchy, in which a group with limited children cannot contain processes; there computes get sibling groups. Therefore
systemd can restart the service in its former group while computes run: it cannot start a service in an inner group.
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
    controllers: tuple[str, ...]  # those of CONTROLLERS that children of parent_group can use

    @property
    def parent_group(self) -> Path:
        """The group in which the platform creates its groups."""
        return self.own_group.parent if self.version == 2 and self.own_group != self.mount_point else self.own_group

    @property
    def is_container(self) -> bool:
        """Whether this process is in the root group of a container.

        Unlike the root group of the machine, it cannot have both processes and limited children.
        """
        return self.own_group == self.mount_point and (self.mount_point / "cgroup.type").exists()


def read_hierarchies() -> list[CgroupHierarchy]:
    """Return the mounted hierarchies, or none if /proc does not show them."""
    try:
        return parse_hierarchies(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    except OSError:
        return []


def parse_hierarchies(mounts: str, membership: str) -> list[CgroupHierarchy]:
    own_groups = _parse_own_groups(membership)
    hierarchies: list[CgroupHierarchy] = []
    for line in mounts.splitlines():
        words = line.split()
        kind, options = words[words.index("-") + 1], words[-1]
        if kind == "cgroup2":
            hierarchies += _build_hierarchy(2, words, own_groups.get(""), ())
        elif kind == "cgroup":
            controllers = tuple(name for name in CONTROLLERS if name in options.split(","))
            if controllers:
                hierarchies += _build_hierarchy(1, words, own_groups.get(controllers[0]), controllers)
    return hierarchies


def _parse_own_groups(membership: str) -> dict[str, str]:
    """Return the path of the group by controller; version 2 has the empty name."""
    groups: dict[str, str] = {}
    for line in membership.splitlines():
        _number, names, path = line.split(":", 2)
        groups |= dict.fromkeys(names.split(","), path)
    return groups


def _build_hierarchy(
    version: int, words: list[str], own_group: str | None, controllers: tuple[str, ...]
) -> list[CgroupHierarchy]:
    """Return no hierarchy when the group of this process is outside of the mount, as in some containers."""
    root, mount_point = words[3].rstrip("/"), Path(words[4])
    if own_group is None or not (own_group + "/").startswith(root + "/"):
        return []
    path = mount_point / own_group.removeprefix(root).strip("/")
    hierarchy = CgroupHierarchy(version, mount_point, path, controllers)
    if version == 1:
        return [hierarchy]
    return [CgroupHierarchy(2, mount_point, path, read_available_controllers(hierarchy.parent_group))]


def read_available_controllers(group: Path) -> tuple[str, ...]:
    """Return the controllers that a version 2 group can enable for its children."""
    try:
        names = (group / "cgroup.controllers").read_text().split()
    except OSError:
        return ()
    return tuple(name for name in CONTROLLERS if name in names)


def enable_controllers(group: Path, controllers: Sequence[str]) -> tuple[str, ...]:
    """Enable controllers for the children of the group. Return those that are enabled."""
    for name in controllers:
        with suppress(OSError):  # the others may succeed
            (group / "cgroup.subtree_control").write_text(f"+{name}")
    enabled = (group / "cgroup.subtree_control").read_text().split()
    return tuple(name for name in controllers if name in enabled)


def move_processes_to_child(group: Path, name: str) -> None:
    """Move all processes of the group to a child, because a group with limited children cannot contain any."""
    child = group / name
    child.mkdir(exist_ok=True)
    while pids := read_pids(group) - {0}:  # 0 stands for processes in another pid namespace, which cannot be moved
        for pid in pids:
            with suppress(ProcessLookupError):
                (child / "cgroup.procs").write_text(str(pid))


def read_pids(group: Path) -> set[int]:
    return {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
