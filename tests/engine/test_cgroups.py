"""Resource limits of computes: what the machine supports, which processes are limited, and complete removal."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bough.config import Settings
from bough.engine.local.isolation import cgroup_hierarchies, cgroups, processes
from bough.engine.local.isolation.cgroup_hierarchies import CgroupHierarchy
from bough.engine.local.isolation.cgroups import OWN_GROUP, Cgroups
from bough.engine.local.isolation.resource_limits import ResourceLimits, build_cpu_cap
from support.attacker import Attacker, find_interpreter
from support.engine_home import EngineHome, temporary_home
from support.requirements import require, require_root

GIB = 1024**3
SMALL = ResourceLimits(memory_bytes=GIB, soft_memory_bytes=GIB, cu=0.25, pids=300)
LARGE = ResourceLimits(memory_bytes=8 * GIB, soft_memory_bytes=8 * GIB, cu=2, pids=1100)
GROWING = ResourceLimits(memory_bytes=8 * GIB, soft_memory_bytes=2 * GIB, cu=0.5, pids=300)
SOFT_FILES = ("memory.soft_limit_in_bytes", "memory.high")
LIMIT_FILES = ("memory.limit_in_bytes", "memory.max", "cpu.shares", "cpu.weight", "pids.max", *SOFT_FILES)
UNLIMITED = {"memory.soft_limit_in_bytes": "9223372036854771712", "memory.high": "max"}
# Forks before it is moved to a group, and again for every line it reads.
FORKING = "sleep 300 & (sleep 300 & wait) & echo ready; while read line; do sleep 300 & echo $line; done; wait"


@pytest.fixture
def settings_here() -> Iterator[Settings]:
    require_root()
    with temporary_home() as made:
        yield made


@pytest.fixture
def groups(settings_here: Settings) -> Cgroups:
    found = cgroups.detect_cgroups(settings_here)
    require("cgroups", found.kind != "none", "this machine lets us make no control groups")
    found.ensure_ready()
    return found


@contextmanager
def process_tree() -> Iterator[subprocess.Popen[str]]:
    """A shell with children and a grandchild."""
    started = subprocess.Popen(["sh", "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with started as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "ready\n"
        try:
            yield shell
        finally:
            pids = members(shell.pid)
            for pid in pids:
                processes.kill(pid, lambda _pid: True)
            while any(processes.runs_as_user(pid, 0) for pid in pids):
                time.sleep(0.005)


def members(pid: int) -> list[int]:
    below = [member for child in processes.list_children(pid) for member in members(child)]
    return [pid, *below]


def read_group(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text()


def is_exiting(pid: int) -> bool:
    """A session that has just ended: the kernel has removed it from its groups."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return bool(int(fields[6]) & 0x4)  # PF_EXITING in linux/sched.h


def read_name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def read_limits(pid: int) -> dict[str, str]:
    """Return the effective limits of the process, by the names of the kernel's files."""
    own = cgroup_hierarchies.parse_hierarchies(Path("/proc/self/mountinfo").read_text(), read_group(pid))
    files = [each.own_group / name for each in own for name in LIMIT_FILES]
    return {file.name: file.read_text().strip() for file in files if file.exists() and "bough-" in str(file)}


def test_a_process_is_placed_with_all_it_forked_and_forks_later(groups: Cgroups) -> None:
    with process_tree() as shell:
        groups.add_process("one", shell.pid, SMALL)
        assert shell.stdin is not None and shell.stdout is not None
        shell.stdin.write("again\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "again\n"
        pids = members(shell.pid)
        assert len(pids) == 5
        assert len({read_group(pid) for pid in pids}) == 1
        assert "/one\n" in read_group(shell.pid)
        assert (groups.read_memory_bytes("one") or 0) > 0
    groups.remove("one")


def test_limits_follow_the_size_and_change_while_it_runs(groups: Cgroups) -> None:
    with process_tree() as shell:
        groups.add_process("one", shell.pid, SMALL)
        before = read_limits(shell.pid)
        groups.add_process("one", shell.pid, LARGE)
        after = read_limits(shell.pid)
        groups.add_process("one", shell.pid, SMALL)
        assert read_limits(shell.pid) == before
    unlimited = {name: (text, text) for name, text in UNLIMITED.items()}
    wanted = unlimited | {
        "memory.limit_in_bytes": (str(GIB), str(8 * GIB)),
        "memory.max": (str(GIB), str(8 * GIB)),
        "cpu.shares": ("256", "2048"),
        "cpu.weight": ("25", "200"),
        "pids.max": ("300", "1100"),
    }
    assert before and before.keys() == after.keys()
    assert {name: (before[name], after[name]) for name in before} == {name: wanted[name] for name in before}
    groups.remove("one")


def test_a_group_is_resized_with_whoever_is_in_it(groups: Cgroups) -> None:
    groups.resize("one", GROWING)
    assert groups.list_names() == set()
    with process_tree() as shell:
        groups.add_process("one", shell.pid, LARGE)
        groups.resize("one", GROWING)
        smaller = read_limits(shell.pid)
        groups.add_process("one", shell.pid, replace(GROWING, pids=1100))  # the limits are already applied
        assert read_limits(shell.pid) == smaller
        groups.add_process("one", shell.pid, LARGE)
        larger = read_limits(shell.pid)
    wanted = {
        "memory.limit_in_bytes": (str(8 * GIB), str(8 * GIB)),
        "memory.max": (str(8 * GIB), str(8 * GIB)),
        "memory.soft_limit_in_bytes": (str(2 * GIB), UNLIMITED["memory.soft_limit_in_bytes"]),
        "memory.high": (str(2 * GIB), "max"),
        "cpu.shares": ("512", "2048"),
        "cpu.weight": ("50", "200"),
        "pids.max": ("1100", "1100"),
    }
    assert smaller and {name: (smaller[name], larger[name]) for name in smaller} == {
        name: wanted[name] for name in smaller
    }
    groups.remove("one")


def test_a_limit_that_comes_down_leaves_room_for_what_is_held(groups: Cgroups) -> None:
    """The memory in use cannot be reclaimed: a lower limit would kill the process."""
    require("cgroups", "memory" in groups.summary, "there is no control group for memory")
    hold = "import sys\nsys.stdin.readline()\nheld = bytearray(300 << 20)\nprint(flush=True)\n"
    hold += "sys.stdin.readline()\nprint(len(held))"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holding:
        assert holding.stdin is not None and holding.stdout is not None
        groups.add_process("one", holding.pid, LARGE)
        holding.stdin.write(b"\n")
        holding.stdin.flush()
        holding.stdout.readline()
        needed = groups.read_unreclaimable_bytes("one") or 0
        groups.resize("one", replace(SMALL, memory_bytes=64 << 20, soft_memory_bytes=64 << 20))
        limits = read_limits(holding.pid)
        limit = int(limits.get("memory.max") or limits["memory.limit_in_bytes"])
        holding.stdin.write(b"\n")
        holding.stdin.close()
        assert holding.stdout.readline() == f"{300 << 20}\n".encode()
    assert needed >= 300 << 20
    assert needed + (128 << 20) < limit < 8 * GIB
    groups.remove("one")


def test_files_that_the_kernel_keeps_are_not_needed(groups: Cgroups, tmp_path: Path) -> None:
    require("cgroups", "memory" in groups.summary, "there is no control group for memory")
    write = "import sys, os\nsys.stdin.readline()\nfile = open(sys.argv[1], 'wb')\nfile.write(bytes(64 << 20))\n"
    write += "os.fsync(file.fileno())\nprint(flush=True)\nsys.stdin.readline()"
    command = [sys.executable, "-c", write, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writing:
        assert writing.stdin is not None and writing.stdout is not None
        groups.add_process("one", writing.pid, LARGE)
        writing.stdin.write(b"\n")
        writing.stdin.flush()
        writing.stdout.readline()
        used, unreclaimable = groups.read_memory_bytes("one") or 0, groups.read_unreclaimable_bytes("one") or 0
        writing.stdin.close()
    assert unreclaimable + (60 << 20) < used
    groups.remove("one")


def test_removing_ends_what_is_left_and_leaves_nothing(groups: Cgroups) -> None:
    with process_tree() as shell:
        pids = members(shell.pid)
        groups.add_process("one", shell.pid, SMALL)
        groups.add_process("two", pids[-1], SMALL)
        groups.remove("one")
        shell.wait()
        assert groups.list_names() == {"two"}
        assert processes.runs_as_user(pids[-1], 0)
        groups.remove("two")
        assert not any(processes.runs_as_user(pid, 0) for pid in pids)
    groups.remove("two")
    assert groups.list_names() == set()
    assert not any((each.parent_group / f"bough-{_name(groups)}").exists() for each in groups._hierarchies)


def test_who_forks_faster_than_we_look_is_ended_too(groups: Cgroups) -> None:
    """Each process forks another and exits, so that every list of them is outdated."""
    hop = "import os, sys\nprint(flush=True)\nsys.stdin.readline()\nwhile True:\n  if os.fork(): os._exit(0)"
    command = [find_interpreter(), "-c", hop]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=310_051) as hopping:
        assert hopping.stdin is not None and hopping.stdout is not None
        hopping.stdout.readline()
        groups.add_process("one", hopping.pid, SMALL)
        require("cgroups", "pids" in groups.summary, "there is no control group for pids")
        hopping.stdin.write(b"\n")
        hopping.stdin.flush()
        hopping.wait()
        groups.remove("one")
    assert groups.list_names() == set()
    assert "failed" not in groups.summary
    assert list(processes.list_pids_of_user(310_051)) == []


def test_a_sweep_takes_only_what_nobody_uses(groups: Cgroups) -> None:
    with process_tree() as shell, subprocess.Popen(["true"]) as gone:
        groups.add_process("used", shell.pid, SMALL)
        groups.add_process("kept", gone.pid, SMALL)
        groups.add_process("left", gone.pid, SMALL)
        gone.wait()
        groups.remove_empty({"kept"})
        assert groups.list_names() == {"used", "kept"}
    for name in ("used", "kept"):
        groups.remove(name)


def test_who_has_ended_already_is_no_trouble(groups: Cgroups) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    groups.add_process("one", gone.pid, SMALL)
    groups.remove("one")
    assert "failed" not in groups.summary


def test_what_the_machine_refuses_is_said_and_no_trouble(tmp_path: Path) -> None:
    groups = Cgroups("x", [CgroupHierarchy(1, tmp_path, tmp_path / "absent", ("memory",))])
    for name in ("one", "two"):
        groups.add_process(name, os.getpid(), SMALL)
        groups.remove(name)
    assert groups.summary == "cgroup v1: memory; control groups failed: No such file or directory"
    assert groups.read_memory_bytes("one") is None


def has_capability(number: int) -> bool:
    effective = Path("/proc/self/status").read_text().split("CapEff:\t")[1].split()[0]
    return bool(int(effective, 16) >> number & 1)


def test_without_groups_a_projects_processes_are_counted_by_its_user() -> None:
    require_root()
    groups = Cgroups("x", (), "this machine has none")
    assert (groups.kind, groups.summary) == ("none", "none: this machine has none")
    with subprocess.Popen(["sleep", "300"], user=310_050, group=310_050, extra_groups=[]) as theirs:
        groups.add_process("one", theirs.pid, SMALL)
        limits = Path(f"/proc/{theirs.pid}/limits").read_text()
        theirs.kill()
    require("sys_resource", has_capability(24), "root may not limit the processes of others here")
    assert "Max processes             8192                 8192" in limits


def test_an_ordinary_user_is_told_what_is_missing(settings_here: Settings) -> None:
    program = (
        "import os, sys; from pathlib import Path; from bough.config import Settings; "
        "from bough.engine.local.isolation import cgroups; os.setgroups([]); os.setresgid(*[65534] * 3); "
        "os.setresuid(*[65534] * 3); print(cgroups.detect_cgroups(Settings(home=Path(sys.argv[1]))).summary)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(settings_here.home)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "none: control groups cannot be created: this needs root or a delegated group\n"


# Version 2: on the real hierarchy where it is mounted, with the controllers it has there.


@pytest.fixture
def second() -> Iterator[Path]:
    """An empty group of version 2."""
    require_root()
    tops = [each.mount_point for each in cgroup_hierarchies.read_hierarchies() if each.version == 2]
    require("cgroups", bool(tops), "this machine has no control groups of version 2")
    handed_on = tops[0] / "cgroup.subtree_control"
    before = handed_on.read_text().split()
    group = tops[0] / f"bough-test-{os.getpid()}"
    group.mkdir()
    yield group
    for path in sorted(group.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
    group.rmdir()
    for name in set(handed_on.read_text().split()) - set(before):
        handed_on.write_text(f"-{name}")


def read_controllers(group: Path) -> tuple[str, ...]:
    return tuple((group / "cgroup.controllers").read_text().split())


def test_in_a_container_processes_make_way_for_groups(second: Path) -> None:
    controllers = read_controllers(second.parent)
    require("cgroups", bool(controllers), "version 2 has no controller here")
    (second.parent / "cgroup.subtree_control").write_text(f"+{controllers[0]}")
    groups = Cgroups("x", [CgroupHierarchy(2, second, second, controllers[:1])])
    with process_tree() as own, process_tree() as theirs:
        for pid in (*members(own.pid), *members(theirs.pid)):
            (second / "cgroup.procs").write_text(str(pid))
        groups.ensure_ready()
        assert f"/{second.name}/{OWN_GROUP}\n" in read_group(own.pid)
        groups.add_process("one", theirs.pid, SMALL)
        assert all(f"/{second.name}/bough-x/one\n" in read_group(pid) for pid in members(theirs.pid))
        assert read_controllers(second / "bough-x" / "one") == controllers[:1]
        assert f"/{second.name}/{OWN_GROUP}\n" in read_group(own.pid)
        groups.remove("one")
        theirs.wait()
    assert [path.name for path in second.iterdir() if path.is_dir()] == [OWN_GROUP]


def test_a_service_gets_its_groups_beside_its_own(second: Path) -> None:
    """Below its own group, systemd could not restart the service while computes run."""
    (second / "bough.service").mkdir()
    groups = Cgroups("x", [CgroupHierarchy(2, second.parent, second / "bough.service", ())])
    with process_tree() as shell:
        groups.add_process("one", shell.pid, SMALL)
        assert f"/{second.name}/bough-x/one\n" in read_group(shell.pid)
        groups.remove("one")


def test_version_2_is_told_limits_in_its_own_words(tmp_path: Path) -> None:
    """A folder replaces the hierarchy, because many test machines lack these controllers in version 2."""
    groups = Cgroups("x", [CgroupHierarchy(2, tmp_path, tmp_path, ("memory", "cpu", "pids"))])
    group = tmp_path / "bough-x" / "one"
    group.mkdir(parents=True)
    (group / "cgroup.procs").touch()
    (group / "memory.swap.max").write_text("max")
    (group / "memory.current").write_text("4096\n")
    (group / "memory.stat").write_text("anon 96\nactive_file 1000\ninactive_file 2000\nslab_reclaimable 900\n")
    assert (groups.read_memory_bytes("one"), groups.read_unreclaimable_bytes("one")) == (4096, 196)
    groups.add_process("one", os.getpid(), ResourceLimits.for_max_size(2, connections=112).at_size(0.25))
    texts = {path.name: path.read_text() for path in group.iterdir() if path.read_text() != "4096\n"}
    del texts["memory.stat"]
    assert texts == {
        "memory.max": str(8 * GIB),
        "memory.high": str(GIB),
        "memory.swap.max": "0",
        "cpu.weight": "25",
        "pids.max": "312",
        "cgroup.procs": texts["cgroup.procs"],
    }
    groups.resize("one", ResourceLimits.for_max_size(2, connections=112))
    assert {name: (group / name).read_text() for name in ("memory.max", "memory.high", "cpu.weight")} == {
        "memory.max": str(8 * GIB),
        "memory.high": "max",
        "cpu.weight": "200",
    }


@pytest.mark.parametrize(
    ("version", "cores", "expected"),
    [
        (2, 0.25, [("cpu.max.burst", "0"), ("cpu.max", "12500 50000"), ("cpu.max.burst", "12500")]),
        (2, 3, [("cpu.max.burst", "0"), ("cpu.max", "150000 50000"), ("cpu.max.burst", "150000")]),
        (2, None, [("cpu.max.burst", "0"), ("cpu.max", "max 50000"), ("cpu.max.burst", "0")]),
        (
            1,
            0.25,
            [
                ("cpu.cfs_burst_us", "0"),
                ("cpu.cfs_quota_us", "-1"),
                ("cpu.cfs_period_us", "50000"),
                ("cpu.cfs_quota_us", "12500"),
                ("cpu.cfs_burst_us", "12500"),
            ],
        ),
    ],
)
def test_the_cpu_cap_of_each_version(version: int, cores: float | None, expected: list[tuple[str, str]]) -> None:
    assert list(build_cpu_cap(version, cores)) == expected


def read_cpu_cap(groups: Cgroups, name: str) -> float | None:
    """Return the quota that the kernel applies, in cores."""
    for each, controllers in groups._hierarchies.items():
        if "cpu" in controllers:
            group = each.parent_group / f"bough-{_name(groups)}" / name
            if each.version == 2:
                quota, period = (group / "cpu.max").read_text().split()
                return None if quota == "max" else int(quota) / int(period)
            quota, period = ((group / f"cpu.cfs_{word}_us").read_text() for word in ("quota", "period"))
            return None if int(quota) < 0 else int(quota) / int(period)
    require("cgroups", False, "there is no control group for cpu")
    return None


def test_the_kernel_caps_a_group_and_lifts_the_cap_again(groups: Cgroups) -> None:
    with process_tree() as shell:
        groups.add_process("one", shell.pid, SMALL)
        assert read_cpu_cap(groups, "one") is None
        for cores in (0.25, 2, 0.5):
            groups.cap_cpu("one", cores)
            groups.resize("one", LARGE)
            assert read_cpu_cap(groups, "one") == cores
        groups.cap_cpu("one", None)
        assert read_cpu_cap(groups, "one") is None
    assert "failed" not in groups.summary
    groups.remove("one")


def test_a_capped_process_cannot_use_more(groups: Cgroups) -> None:
    """The kernel counts the periods in which it stopped the process."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        groups.add_process("one", spinning.pid, SMALL)
        groups.cap_cpu("one", 0.25)
        while read_throttled_periods(groups, "one") < 3:
            time.sleep(0.05)
        spinning.kill()
    groups.remove("one")


def read_throttled_periods(groups: Cgroups, name: str) -> int:
    (group,) = (
        each.parent_group / f"bough-{_name(groups)}" / name
        for each, controllers in groups._hierarchies.items()
        if "cpu" in controllers
    )
    fields = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(fields["nr_throttled"])


def test_another_control_process_applies_its_setting(groups: Cgroups, settings_here: Settings) -> None:
    with process_tree() as shell:
        groups.add_process("one", shell.pid, SMALL)
        groups.cap_cpu("one", 0.25)
        without = cgroups.detect_cgroups(settings_here.model_copy(update={"cpu_limits": False}))
        without.ensure_ready()
        without.cap_cpu("one", 0.25)
        assert read_cpu_cap(groups, "one") is None
        assert "the CPU is not capped (cpu_limits)" in without.summary
        again = cgroups.detect_cgroups(settings_here)
        again.cap_cpu("one", 0.5)
        again.cap_cpu("absent", 0.5)
        assert read_cpu_cap(groups, "one") == 0.5
    groups.remove("one")


# The contents of /proc files, as text.

V2 = "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
MEMORY = "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n"
CPU = "36 31 0:33 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"


@pytest.mark.parametrize(
    ("mounts", "membership", "places"),
    [
        (V2, "0::/system.slice/bough.service\n", ["/sys/fs/cgroup/system.slice"]),
        (V2, "0::/\n", ["/sys/fs/cgroup"]),
        (MEMORY + CPU, "2:cpu,cpuacct:/a/b\n1:memory:/c\n0::/\n", ["/cg/memory/c", "/cg/cpu,cpuacct/a/b"]),
        ("35 31 0:32 /docker/1 /cg/memory ro - cgroup cgroup rw,memory\n", "1:memory:/docker/1/x\n", ["/cg/memory/x"]),
        ("35 31 0:32 /docker/1 /cg/memory ro - cgroup cgroup rw,memory\n", "1:memory:/docker/12\n", []),
        ("40 31 0:37 / /cg/systemd rw - cgroup cgroup rw,name=systemd\n", "1:name=systemd:/\n", []),
        ("21 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "", []),
    ],
)
def test_where_groups_go_is_read_off_the_kernel(mounts: str, membership: str, places: list[str]) -> None:
    assert [str(each.parent_group) for each in cgroup_hierarchies.parse_hierarchies(mounts, membership)] == places


@pytest.mark.parametrize(("cu", "memory"), [(0.25, 1), (0.1, 1), (1, 4), (8, 32)])
def test_a_cu_is_four_gibibytes_and_one_is_the_least(cu: float, memory: int) -> None:
    whole = ResourceLimits.for_max_size(cu, connections=100)
    assert whole == ResourceLimits(memory_bytes=memory * GIB, soft_memory_bytes=memory * GIB, cu=cu, pids=300)
    assert whole.at_size(cu) == whole
    assert whole.at_size(0.25) == ResourceLimits(memory_bytes=memory * GIB, soft_memory_bytes=GIB, cu=0.25, pids=300)


# On computes.


async def test_a_compute_runs_within_its_size_and_is_resized_while_it_runs(home: EngineHome) -> None:
    require_root()
    require("cgroups", home.engine.capabilities().limits_summary.startswith("cgroup"), "there are no control groups")
    compute = await home.create_compute()
    pid, before = compute.pid, read_limits(compute.pid)
    assert before
    assert f"/{compute.spec.endpoint_id}\n" in read_group(pid)
    groups = {member: read_group(member) for member in processes.list_pids_of_user(compute.data_folder.stat().st_uid)}
    assert {group for member, group in groups.items() if not is_exiting(member)} == {read_group(pid)}
    await compute.start(max_cu=2)
    assert compute.pid == pid
    assert read_limits(pid) != before
    assert read_cpu_cap(home.engine._components.cgroups, compute.spec.endpoint_id) == 2
    await compute.suspend()
    assert compute.spec.endpoint_id not in cgroups.detect_cgroups(home.settings).list_names()


async def test_what_a_compute_leaves_running_ends_with_it(home: EngineHome) -> None:
    require_root()
    require("cgroups", home.engine.capabilities().limits_summary.startswith("cgroup"), "there are no control groups")
    compute = await home.create_compute()
    await Attacker(compute).run_shell("setsid sh -c 'sleep 300 >/dev/null 2>&1 & sleep 300 >/dev/null 2>&1 & echo'")
    uid = compute.data_folder.stat().st_uid
    assert len([pid for pid in processes.list_pids_of_user(uid) if read_name(pid) != "postgres"]) == 2
    await compute.suspend()
    assert list(processes.list_pids_of_user(uid)) == []


async def test_a_new_control_knows_the_groups_of_running_computes(home: EngineHome) -> None:
    require_root()
    require("cgroups", home.engine.capabilities().limits_summary.startswith("cgroup"), "there are no control groups")
    compute = await home.create_compute()
    before = read_group(compute.pid)
    async with EngineHome.open(home.settings) as later:
        compute.home = later
        await compute.start(max_cu=1)
        assert read_group(compute.pid) == before
        compute.home = home
    assert read_limits(compute.pid).get("pids.max") == "312"


def _name(groups: Cgroups) -> str:
    return groups._home.removeprefix("bough-")
