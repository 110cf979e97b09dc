"""Limits of computes by control groups: one group a compute, below one group a home.

What a machine has is found out once: version 2, version 1 or nothing. A limit that cannot be set
never keeps a compute from starting: it is logged once, and the sentence for reports says so.
"""

import os
import resource
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bough import log
from bough.config import Settings
from bough.engine.local.isolation import cgroup_files, cgroup_hierarchies
from bough.engine.local.isolation.cgroup_hierarchies import CONTROLLERS, CgroupHierarchy
from bough.engine.local.isolation.resource_limits import ResourceLimits, build_cgroup_settings, build_cpu_weight

OWN_GROUP = "bough-control"  # where our own processes go when they stand in the way
_NO_SWAP_ACCOUNTING = ("memory.swap.max", "memory.memsw.limit_in_bytes")  # files that some kernels lack
_PROCESSES_OF_A_USER = 8192  # of all computes of a project, where groups cannot count
_HEADROOM = 256 * 1024**2  # bytes above what a compute holds when its limit comes down

logger = log.get_logger(component="engine")


def detect_cgroups(settings: Settings) -> "Cgroups":
    """What this machine offers to the home. Nothing is changed yet."""
    home = settings.sockets.name[-8:]
    seen = [each for each in cgroup_hierarchies.read_hierarchies() if each.controllers]
    usable = [each for each in seen if os.access(each.parent_group, os.W_OK)]
    chosen = [each for each in usable if each.version == 2] or [each for each in usable if each.version == 1]
    if chosen:
        return Cgroups(home, chosen)
    if not seen:
        return Cgroups(home, (), "this machine has no control groups for memory, cpu or pids")
    why = "they are mounted read-only" if os.geteuid() == 0 else "that needs root or a delegated group"
    return Cgroups(home, (), f"control groups cannot be made, {why}")


class Cgroups:
    def __init__(self, home: str, chosen: Sequence[CgroupHierarchy], unavailable_reason: str = "") -> None:
        self.kind = f"v{chosen[0].version}" if chosen else "none"
        self._hierarchies = {each: each.controllers for each in chosen}
        self._home = f"bough-{home}"
        self.unavailable_reason = unavailable_reason
        self._errors: dict[str, str] = {}
        self._placed: dict[str, tuple[int, ResourceLimits]] = {}
        self._lock = threading.Lock()  # the home's group goes with its last child and comes with the next

    @property
    def summary(self) -> str:
        active = {name for each in self._hierarchies.values() for name in each}
        names = [name for name in CONTROLLERS if name in active]
        if not names:
            return f"none: {self.unavailable_reason or '; '.join(self._errors.values())}"
        refusals = "".join(f"; {refusal}" for refusal in self._errors.values())
        return f"cgroup {self.kind}: {', '.join(names)}{refusals}"

    def ensure_ready(self) -> None:
        """Find out which controllers are to be had: version 2 hands them on only where it was told to."""
        for each in self._hierarchies:
            if each.version == 2:
                with self._log_errors("control groups"):
                    if each.is_container:
                        cgroup_hierarchies.move_processes_to_child(each.mount_point, OWN_GROUP)
                    self._hierarchies[each] = cgroup_hierarchies.enable_controllers(each.parent_group, each.controllers)
        if self._hierarchies and not any(self._hierarchies.values()):
            self.unavailable_reason = "the control groups here hand no controller on"

    def add_process(self, name: str, pid: int, limits: ResourceLimits) -> None:
        """The process and all it forked are in the group of that name, under these limits; may be repeated."""
        if self._placed.get(name) == (pid, limits):
            return
        with self._lock:
            for each, controllers in self._hierarchies.items():
                with self._log_errors("control groups"):
                    group = self._ensure_group(each, name)
                    for controller in controllers:
                        self._write(each.version, group, controller, limits)
                    cgroup_files.move_process(pid, group)
            self._placed[name] = (pid, limits)
        if not any("pids" in controllers for controllers in self._hierarchies.values()):
            _limit_user(pid)

    @contextmanager
    def enter_group(self, name: str, limits: ResourceLimits) -> Iterator[None]:
        """What this thread starts meanwhile is in the group from its first moment.

        Only version 1 lets a thread go alone, in a fiftieth of the time that moving a process takes.
        Elsewhere, or when it fails, `place` moves the process when it is there.
        """
        left: list[CgroupHierarchy] = []
        with self._lock, self._log_errors("control groups"):
            for each, controllers in self._hierarchies.items():
                if each.version == 1:
                    group = self._ensure_group(each, name)
                    for controller in controllers:
                        self._write(each.version, group, controller, limits)
                    (group / "tasks").write_text("0")
                    left.append(each)
        try:
            yield
        finally:
            for each in left:
                (each.own_group / "tasks").write_text("0")

    def resize(self, name: str, limits: ResourceLimits) -> None:
        """What is in the group has this share of memory and processors from now on; nothing without a group."""
        if name in self._placed and self._placed[name][1] == limits:
            return
        with self._lock:
            for each, controllers in self._hierarchies.items():
                group = self._parent(each) / name
                if group.exists():
                    for controller in set(controllers) & {"memory", "cpu"}:
                        self._write(each.version, group, controller, limits)
            if name in self._placed:
                pid, before = self._placed[name]
                self._placed[name] = (pid, replace(limits, pids=before.pids))

    def remove(self, name: str) -> None:
        """The group is gone, and with it whatever a compute that ended left running."""
        self._placed.pop(name, None)
        places = [self._parent(each) / name for each in self._hierarchies]
        for step in (cgroup_files.stop_forking, cgroup_files.kill_and_remove):
            for group in places:
                with self._log_errors("control groups"):
                    step(group)
        self._remove_parents()

    def remove_empty(self, alive: set[str]) -> None:
        """Groups without processes that belong to nobody alive are gone."""
        for name in self.list_names() - alive:
            for each in self._hierarchies:
                with suppress(OSError):
                    (self._parent(each) / name).rmdir()
        self._remove_parents()

    def list_names(self) -> set[str]:
        parents = [self._parent(each) for each in self._hierarchies]
        return {group.name for parent in parents if parent.exists() for group in parent.iterdir() if group.is_dir()}

    def read_memory_bytes(self, name: str) -> int | None:
        """What the compute holds, with the files the kernel keeps for it."""
        for each, controllers in self._hierarchies.items():
            if "memory" in controllers:
                with suppress(OSError):
                    return cgroup_files.read_memory_bytes(each.version, self._parent(each) / name)
        return None

    def read_unreclaimable_bytes(self, name: str) -> int | None:
        """What it cannot give back."""
        for each, controllers in self._hierarchies.items():
            if "memory" in controllers:
                group = self._parent(each) / name
                with suppress(OSError):
                    return max(
                        0,
                        cgroup_files.read_memory_bytes(each.version, group)
                        - cgroup_files.read_reclaimable_bytes(group),
                    )
        return None

    def _parent(self, hierarchy: CgroupHierarchy) -> Path:
        return hierarchy.parent_group / self._home

    def _remove_parents(self) -> None:
        """When they are empty: a home without computes leaves nothing on the machine."""
        with self._lock:
            for each in self._hierarchies:
                with suppress(OSError):
                    self._parent(each).rmdir()

    def _ensure_group(self, hierarchy: CgroupHierarchy, name: str) -> Path:
        parent = self._parent(hierarchy)
        if not parent.exists():
            parent.mkdir()
            controllers = self._hierarchies[hierarchy]
            if hierarchy.version == 2:
                cgroup_hierarchies.enable_controllers(parent, controllers)
            if "cpu" in controllers:
                # Together they weigh what a busy process on every core does, however many they are.
                file, weight = build_cpu_weight(hierarchy.version, os.cpu_count() or 1)
                (parent / file).write_text(weight)
        group = parent / name
        group.mkdir(exist_ok=True)
        return group

    def _write(self, version: int, group: Path, controller: str, limits: ResourceLimits) -> None:
        with self._log_errors(controller):
            if controller == "memory":
                # A limit below what is held would kill; it comes down with what is.
                limits = replace(
                    limits,
                    memory_bytes=max(limits.memory_bytes, cgroup_files.read_memory_bytes(version, group) + _HEADROOM),
                )
            for file, value in build_cgroup_settings(version, controller, limits):
                if file not in _NO_SWAP_ACCOUNTING or (group / file).exists():
                    (group / file).write_text(value)

    @contextmanager
    def _log_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if what not in self._errors:
                self._errors[what] = f"{what} refused: {error.strerror}"
                logger.warning("compute_not_limited", limit=what, error=str(error))


def _limit_user(pid: int) -> None:
    """The kernel counts a user's processes, so only a user that is a project's can be limited."""
    with suppress(OSError):
        if Path(f"/proc/{pid}").stat().st_uid != os.geteuid():
            resource.prlimit(pid, resource.RLIMIT_NPROC, (_PROCESSES_OF_A_USER, _PROCESSES_OF_A_USER))
