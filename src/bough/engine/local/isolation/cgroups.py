"""Limit computes by control groups: one group per compute, below one group per home.

The machine's support is detected once: version 2, version 1 or none. A limit that cannot be set does not prevent a
compute from starting: it is logged once and appears in `summary`.
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
from bough.engine.local.isolation.resource_limits import (
    ResourceLimits,
    build_cgroup_settings,
    build_cpu_cap,
    build_cpu_weight,
)

OWN_GROUP = "bough-control"  # for the platform's own processes, when they must leave the root group
_SWAP_FILES = ("memory.swap.max", "memory.memsw.limit_in_bytes")  # missing without swap accounting
_BURST_FILES = ("cpu.max.burst", "cpu.cfs_burst_us")  # since Linux 5.14
_MAX_USER_PROCESSES = 8192  # per project, where control groups cannot limit processes
_HEADROOM = 256 * 1024**2  # bytes above the memory in use, when a limit is lowered

logger = log.get_logger(component="engine")


def detect_cgroups(settings: Settings) -> "Cgroups":
    """Detect the control groups that this home can use, without changing anything."""
    home = settings.sockets.name[-8:]
    found = [each for each in cgroup_hierarchies.read_hierarchies() if each.controllers]
    usable = [each for each in found if os.access(each.parent_group, os.W_OK)]
    chosen = [each for each in usable if each.version == 2] or [each for each in usable if each.version == 1]
    if chosen:
        return Cgroups(home, chosen, caps_cpu=settings.cpu_limits)
    if not found:
        return Cgroups(home, (), "this machine has no control groups for memory, cpu or pids")
    reason = "they are mounted read-only" if os.geteuid() == 0 else "this needs root or a delegated group"
    return Cgroups(home, (), f"control groups cannot be created: {reason}")


class Cgroups:
    def __init__(
        self,
        home: str,
        chosen: Sequence[CgroupHierarchy],
        unavailable_reason: str = "",
        *,
        caps_cpu: bool = True,
    ) -> None:
        self.kind = f"v{chosen[0].version}" if chosen else "none"
        self._hierarchies = {each: each.controllers for each in chosen}
        self._home = f"bough-{home}"
        self.unavailable_reason = unavailable_reason
        self._errors: dict[str, str] = {}
        self._placed: dict[str, tuple[int, ResourceLimits]] = {}
        self._caps_cpu = caps_cpu
        self._cpu_caps: dict[str, float | None] = {}  # those in effect, in cores
        self._lock = threading.Lock()  # the home's group is removed with its last child and created with the next

    @property
    def summary(self) -> str:
        enabled = {name for each in self._hierarchies.values() for name in each}
        names = [name for name in CONTROLLERS if name in enabled]
        if not names:
            return f"none: {self.unavailable_reason or '; '.join(self._errors.values())}"
        errors = "".join(f"; {error}" for error in self._errors.values())
        cap = "" if self._caps_cpu or "cpu" not in names else "; the CPU is not capped (cpu_limits)"
        return f"cgroup {self.kind}: {', '.join(names)}{cap}{errors}"

    def ensure_ready(self) -> None:
        """Enable controllers for child groups, which version 2 requires."""
        for each in self._hierarchies:
            if each.version == 2:
                with self._log_errors("control groups"):
                    if each.is_container:
                        cgroup_hierarchies.move_processes_to_child(each.mount_point, OWN_GROUP)
                    self._hierarchies[each] = cgroup_hierarchies.enable_controllers(each.parent_group, each.controllers)
        if self._hierarchies and not any(self._hierarchies.values()):
            self.unavailable_reason = "no controller can be enabled for child groups"

    def add_process(self, name: str, pid: int, limits: ResourceLimits) -> None:
        """Move the process and its descendants to the group and apply the limits. Idempotent."""
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
        """Move this thread to the group, so that the processes it starts begin there.

        Only version 1 can move a single thread, which takes a fiftieth of the time that moving a process takes. With
        version 2, or after an error, `add_process` moves the process after its start.
        """
        entered: list[CgroupHierarchy] = []
        with self._lock, self._log_errors("control groups"):
            for each, controllers in self._hierarchies.items():
                if each.version == 1:
                    group = self._ensure_group(each, name)
                    for controller in controllers:
                        self._write(each.version, group, controller, limits)
                    (group / "tasks").write_text("0")
                    entered.append(each)
        try:
            yield
        finally:
            for each in entered:
                (each.own_group / "tasks").write_text("0")

    def resize(self, name: str, limits: ResourceLimits) -> None:
        """Change the memory and CPU limits of the group, if it exists."""
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

    def cap_cpu(self, name: str, cores: float | None) -> None:
        """Cap the CPU time per second of the group, if it exists; None: lift the cap. A new group has none."""
        with self._lock:
            for each, controllers in self._hierarchies.items():
                group = self._parent(each) / name
                if "cpu" in controllers and group.exists():
                    self._write_cpu_cap(each.version, group, cores)

    def remove(self, name: str) -> None:
        """Remove the group and kill the processes that an ended compute left in it."""
        self._placed.pop(name, None)
        self._cpu_caps.pop(name, None)
        groups = [self._parent(each) / name for each in self._hierarchies]
        for step in (cgroup_files.stop_forking, cgroup_files.kill_and_remove):
            for group in groups:
                with self._log_errors("control groups"):
                    step(group)
        self._remove_parents()

    def remove_empty(self, alive: set[str]) -> None:
        """Remove groups without processes, except those named in `alive`."""
        for name in self.list_names() - alive:
            for each in self._hierarchies:
                with suppress(OSError):
                    (self._parent(each) / name).rmdir()
        self._remove_parents()

    def list_names(self) -> set[str]:
        parents = [self._parent(each) for each in self._hierarchies]
        return {group.name for parent in parents if parent.exists() for group in parent.iterdir() if group.is_dir()}

    def read_memory_bytes(self, name: str) -> int | None:
        """Return the memory of the compute, including its page cache."""
        for each, controllers in self._hierarchies.items():
            if "memory" in controllers:
                with suppress(OSError):
                    return cgroup_files.read_memory_bytes(each.version, self._parent(each) / name)
        return None

    def read_unreclaimable_bytes(self, name: str) -> int | None:
        """Return the memory that the kernel cannot reclaim."""
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
        """Remove the home's groups if they are empty: a home without computes leaves no group."""
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
                # All computes together have the weight of one busy process per core, regardless of their number.
                file, weight = build_cpu_weight(hierarchy.version, os.cpu_count() or 1)
                (parent / file).write_text(weight)
        group = parent / name
        if not group.exists():
            group.mkdir()
            if "cpu" in self._hierarchies[hierarchy]:
                self._cpu_caps[name] = None
        return group

    def _write_cpu_cap(self, version: int, group: Path, cores: float | None) -> None:
        cap = cores if self._caps_cpu else None
        if self._cpu_caps.get(group.name, 0.0) == cap:
            return
        with self._log_errors("cpu cap"):
            for file, value in build_cpu_cap(version, cap):
                if file not in _BURST_FILES or (group / file).exists():
                    (group / file).write_text(value)
        self._cpu_caps[group.name] = cap

    def _write(self, version: int, group: Path, controller: str, limits: ResourceLimits) -> None:
        with self._log_errors(controller):
            if controller == "memory":
                # A limit below the memory in use would kill processes.
                limits = replace(
                    limits,
                    memory_bytes=max(limits.memory_bytes, cgroup_files.read_memory_bytes(version, group) + _HEADROOM),
                )
            for file, value in build_cgroup_settings(version, controller, limits):
                if file not in _SWAP_FILES or (group / file).exists():
                    (group / file).write_text(value)

    @contextmanager
    def _log_errors(self, subject: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if subject not in self._errors:
                self._errors[subject] = f"{subject} failed: {error.strerror}"
                logger.warning("compute_not_limited", limit=subject, error=str(error))


def _limit_user(pid: int) -> None:
    """The kernel counts processes per user, so this works only for a project's own user."""
    with suppress(OSError):
        if Path(f"/proc/{pid}").stat().st_uid != os.geteuid():
            resource.prlimit(pid, resource.RLIMIT_NPROC, (_MAX_USER_PROCESSES, _MAX_USER_PROCESSES))
