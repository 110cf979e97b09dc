"""A tenant that executes code in its compute attacks other projects, the platform and the machine.

When the platform runs as root, all of these attempts fail. Without root there is no such isolation.
"""

import json
import os
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from bough.config import Settings, default_cache
from bough.engine.local.isolation import cgroup_hierarchies, cgroups, processes
from bough.engine.local.isolation.resource_limits import ResourceLimits
from bough.engine.port import EngineError
from bough.engine.spec import ComputeSpec
from bough.ids import EndpointId
from support.attacker import Attacker
from support.engine_home import Compute, EngineHome, make_compute_spec
from support.platform import open_platform_in, temporary_folder
from support.requirements import require, require_root

SOCKET = ".s.PGSQL.5432"
MIB = 1024**2


@pytest.fixture(scope="module")
def neighbour_spec(shared_compute_spec: ComputeSpec) -> ComputeSpec:
    require_root()
    return make_compute_spec(shared_compute_spec.install)


@pytest.fixture
async def neighbour(home: EngineHome, neighbour_spec: ComputeSpec) -> Compute:
    return await home.ensure_compute(neighbour_spec)


@pytest.fixture
async def attacker(tenant_compute: Compute, neighbour: Compute) -> Attacker:
    assert tenant_compute.data_folder.stat().st_uid != neighbour.data_folder.stat().st_uid
    return Attacker(tenant_compute)


def list_allowed(outcomes: dict[str, str]) -> dict[str, str]:
    """Return the attempts that were not denied. Another kind of error does not count as denied."""
    assert outcomes
    return {sentence: outcome for sentence, outcome in outcomes.items() if outcome != "refused"}


def find_sockets(compute: Compute) -> Path:
    return compute.home.settings.sockets / compute.spec.endpoint_id


def run_as_user(uid: int, *command: str) -> str:
    """Run a program as the user, but outside the compute. Return its output."""
    done = subprocess.run(command, user=uid, group=uid, extra_groups=[], capture_output=True, text=True, check=True)
    return done.stdout


async def test_the_attacker_is_the_computes_user_and_no_more(attacker: Attacker, tenant_compute: Compute) -> None:
    uid = str(tenant_compute.data_folder.stat().st_uid)
    assert await attacker.run_shell("id -u; id -g; id -G") == "\n".join([uid] * 3)
    own = await attacker.try_all(
        {"read its own data": "open(data + '/PG_VERSION').read()"}, data=tenant_compute.data_folder
    )
    assert own == {"read its own data": "done"}


async def test_a_neighbours_files_are_closed(attacker: Attacker, neighbour: Compute) -> None:
    attempts = {
        "list its data": "os.listdir(data)",
        "go into its data": "os.chdir(data)",
        "read its data": "open(data + '/PG_VERSION')",
        "write into its data": "open(data + '/evil', 'w')",
        "take its data away": "os.rename(data, data + '.old')",
        "list its volume": "os.listdir(volume)",
        "read its settings": "open(volume + '/conf/postgresql.conf')",
        "change who may enter": "open(volume + '/conf/pg_hba.conf', 'a')",
        "read our record of it": "open(volume + '/volume.json')",
        "take its volume away": "os.rename(volume, volume + '.old')",
        "list all volumes": "os.listdir(os.path.dirname(volume))",
        "add a volume": "os.mkdir(os.path.dirname(volume) + '/evil')",
        "read its log": "open(log)",
        "write its log": "open(log, 'a')",
        "list all logs": "os.listdir(os.path.dirname(log))",
    }
    names = {"data": neighbour.data_folder, "volume": neighbour.volume_folder, "log": neighbour.log_file}
    assert list_allowed(await attacker.try_all(attempts, **names)) == {}


async def test_what_is_ours_in_its_own_volume_stays_ours(attacker: Attacker, tenant_compute: Compute) -> None:
    attempts = {
        "change its settings": "open(volume + '/conf/postgresql.conf', 'a')",
        "change who may enter": "open(volume + '/conf/pg_hba.conf', 'a')",
        "change who is who": "open(volume + '/conf/pg_ident.conf', 'a')",
        "open its settings to itself": "os.chmod(volume + '/conf/pg_hba.conf', 0o666)",
        "add a file of settings": "open(volume + '/conf/evil.conf', 'w')",
        "put a link in their place": "os.rename(volume + '/conf', volume + '/old')",
        "create a link next to them": "os.symlink('/etc', volume + '/evil')",
        "replace its data directory": "os.rename(volume + '/data', volume + '/old')",
        "replace its volume": "os.rename(volume, volume + '.old')",
        "open its volume to others": "os.chmod(volume, 0o777)",
        "read our record": "open(volume + '/volume.json')",
        "change our record": "open(volume + '/volume.json', 'a')",
        "open its log": "open(log, 'a')",
    }
    assert (
        list_allowed(await attacker.try_all(attempts, volume=tenant_compute.volume_folder, log=tenant_compute.log_file))
        == {}
    )


async def test_we_follow_no_link_that_a_tenant_made(home: EngineHome, neighbour: Compute) -> None:
    """Its pid file and its folders point to another project; then it is stopped and deleted."""
    compute, pid = await home.create_compute(), neighbour.pid
    done = await Attacker(compute).try_all(
        {
            "be the neighbour": "os.unlink(data + PID); os.symlink(other + PID, data + PID)",
            "lead into its folders": "os.symlink(other, data + '/base/evil'); os.symlink(other, data + '/pg_wal/evil')",
        },
        data=compute.data_folder,
        other=neighbour.data_folder,
        PID="/postmaster.pid",
    )
    assert set(done.values()) == {"done"}
    assert await compute.get_address() is None
    await compute.suspend()
    await compute.delete()
    assert neighbour.pid == pid
    assert (neighbour.data_folder / "PG_VERSION").exists()
    assert await neighbour.fetch_value("select 1") == 1


async def test_sockets_are_closed_and_cannot_be_replaced(
    attacker: Attacker, tenant_compute: Compute, neighbour: Compute
) -> None:
    attempts = {
        "reach its neighbour's": f"connect(theirs + '/{SOCKET}')",
        "reach its own": f"connect(own + '/{SOCKET}')",
        "remove its own": f"os.unlink(own + '/{SOCKET}')",
        "rename its own": f"os.rename(own + '/{SOCKET}', own + '/old')",
        "link to its neighbour's": f"os.symlink(theirs + '/{SOCKET}', own + '/evil')",
        "bind one next to its own": "bind(own + '/evil')",
        "bind one in the folder of all": "bind(os.path.dirname(own) + '/evil')",
        "bind one in its neighbour's folder": "bind(theirs + '/evil')",
        "replace its folder": "os.rename(own, own + '.old')",
        "replace its neighbour's folder": "os.rename(theirs, theirs + '.old')",
        "open its folder to all": "os.chmod(own, 0o777)",
        "list its folder": "os.listdir(own)",
        "list the folder of all": "os.listdir(os.path.dirname(own))",
        "list the homes": "os.listdir('/run/bough')",
        "list who has which user": "os.listdir('/run/bough/uids')",
        "hold our lock": "open('/run/bough/uids/.lock')",
    }
    names = {"own": find_sockets(tenant_compute), "theirs": find_sockets(neighbour)}
    assert list_allowed(await attacker.try_all(attempts, **names)) == {}


async def test_a_socket_replaced_while_the_compute_starts_is_not_followed(home: EngineHome, neighbour: Compute) -> None:
    """Until the folder is sealed, the compute can write to it, and no other user can traverse it."""
    compute = await home.create_compute()
    folder, uid = find_sockets(compute), compute.data_folder.stat().st_uid
    os.chown(folder, -1, uid)
    folder.chmod(0o730)
    run_as_user(uid, "ln", "-sf", str(find_sockets(neighbour) / SOCKET), str(folder / SOCKET))
    assert await compute.get_address() is None
    with pytest.raises(EngineError, match="replaced its socket"):
        await compute.start()
    await compute.suspend()
    await compute.start()
    assert await compute.fetch_value("select 1") == 1


async def test_processes_of_others_are_out_of_reach(attacker: Attacker, neighbour: Compute) -> None:
    each = {
        "signal {}": "os.kill(pid, 0)",
        "end {}": "os.kill(pid, 9)",
        "trace {}": "call('ptrace', 16, pid, None, None)",
        "read the variables of {}": "open(f'/proc/{pid}/environ').read()",
        "read the map of {}": "open(f'/proc/{pid}/maps').read()",
        "read the memory of {}": "open(f'/proc/{pid}/mem', 'rb')",
        "write the memory of {}": "open(f'/proc/{pid}/mem', 'wb')",
        "list the open files of {}": "os.listdir(f'/proc/{pid}/fd')",
        "see where {} is": "os.readlink(f'/proc/{pid}/cwd')",
        "go through the root of {}": "os.listdir(f'/proc/{pid}/root')",
        "copy a file descriptor of {}": "call('syscall', 438, os.pidfd_open(pid), 1, 0)",
        "limit {}": "resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))",
        "slow {} down": "os.setpriority(os.PRIO_PROCESS, pid, 19)",
        "have {} killed first": "open(f'/proc/{pid}/oom_score_adj', 'w')",
    }
    targets = {
        "the neighbour": neighbour.pid,
        "its checkpointer": processes.list_children(neighbour.pid)[0],
        "control": os.getpid(),
    }
    attempts = {
        sentence.format(who): f"pid = {pid}; {code}" for who, pid in targets.items() for sentence, code in each.items()
    }
    assert list_allowed(await attacker.try_all(attempts)) == {}


async def test_a_neighbours_shared_memory_is_closed(attacker: Attacker, neighbour: Compute) -> None:
    uid = neighbour.data_folder.stat().st_uid
    segments = [path for path in Path("/dev/shm").glob("PostgreSQL.*") if path.stat().st_uid == uid]
    rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    old_style = [int(row[1]) for row in rows if int(row[7]) == uid]
    assert segments and old_style
    attempts = {
        "read": "open(segment, 'rb')",
        "write": "open(segment, 'r+b')",
        "remove": "os.unlink(segment)",
        "attach": "call('shmat', number, None, 0)",
        "attach to read": "call('shmat', number, None, 0o10000)",
        "mark for removal": "call('shmctl', number, 0, None)",
    }
    assert list_allowed(await attacker.try_all(attempts, segment=segments[0], number=old_style[0])) == {}


async def test_it_cannot_leave_its_limits_or_raise_them(
    attacker: Attacker, tenant_compute: Compute, home: EngineHome
) -> None:
    require("cgroups", home.engine.capabilities().limits_summary.startswith("cgroup"), "there are no control groups")
    attempts = {
        "let cores be dumped": "raise_limit(resource.RLIMIT_CORE)",
        "be killed last": "open('/proc/self/oom_score_adj', 'wb', 0).write(b'-1000')",
        "go before others": "os.nice(-5)",
    }
    membership = Path(f"/proc/{tenant_compute.pid}/cgroup").read_text()
    own = cgroup_hierarchies.parse_hierarchies(Path("/proc/self/mountinfo").read_text(), membership)
    for group in [each.own_group for each in own if each.version == 1 or each.controllers]:
        attempts |= {
            f"leave {group} for the top": f"open('{group.parents[1]}/cgroup.procs', 'w')",
            f"leave {group} for a child": f"os.mkdir('{group}/evil')",
        }
        files = [path for path in group.iterdir() if path.stat().st_mode & stat.S_IWUSR]
        attempts |= {f"write {file}": f"open('{file}', 'w')" for file in files}
    assert list_allowed(await attacker.try_all(attempts)) == {}


async def test_no_privilege_can_be_gained(attacker: Attacker, neighbour: Compute) -> None:
    attempts = {
        "become root": "os.setuid(0)",
        "become its neighbour": "os.setresuid(other, other, other)",
        "join its neighbour's group": "os.setgroups([other])",
        "mount": "call('mount', b'none', b'/mnt', b'tmpfs', 0, None)",
        "change its root": "os.chroot('/tmp')",
        "make a device": "os.mknod('/tmp/bough-evil', 0o060600, 0x700)",
        "forge packets": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        "enter control's namespaces": "call('syscall', 308, os.open('/proc/1/ns/mnt', os.O_RDONLY), 0)",
        "read the machine's secrets": "open('/etc/shadow')",
    }
    assert list_allowed(await attacker.try_all(attempts, other=neighbour.data_folder.stat().st_uid)) == {}


async def test_a_setuid_program_gives_it_nothing(attacker: Attacker, tenant_compute: Compute) -> None:
    program, uid = default_cache() / f"id-{os.getpid()}", tenant_compute.data_folder.stat().st_uid
    try:
        shutil.copy("/usr/bin/id", program)
        program.chmod(0o4755)
        reply = run_as_user(uid, str(program), "-u")
        require("root", reply == "0\n", "setuid programs are without effect on this file system")
        assert await attacker.run_shell(f"{program} -u") == str(uid)
    finally:
        program.unlink()


async def test_of_our_home_it_reaches_nothing_but_its_own_volume_and_archive(traversable_folder: Path) -> None:
    """Run the whole platform, so that keys and store exist. Try the full path of every file in the home."""
    require_root()
    with temporary_folder() as folder:
        (folder / "home").mkdir(mode=0o711)
        (folder / "home" / "bough.toml").write_text("log_level = 'error'\n")
        async with open_platform_in(folder) as platform:
            first, _second = await platform.create_ready_project(), await platform.create_ready_project()
            compute = find_compute(platform.settings, platform.engine, first["endpoints"][0]["id"])
            own = find_volume(platform.settings, compute.spec.endpoint_id)
            home = platform.settings.home
            mine = (own, home / "wal" / own.name)  # it also owns its archive
            paths = [path for path in (home, *home.rglob("*")) if not any(map(path.is_relative_to, mine))]
            assert {home / "store.db", home / "keys" / "operator", home / "bough.toml"} < set(paths)
            (traversable_folder / "paths").write_text("\n".join(map(str, paths)))
            (traversable_folder / "paths").chmod(0o644)
            reached = json.loads(await Attacker(compute).run_python(OPEN_ALL, str(traversable_folder / "paths")))
            assert reached == [str(home / "ca.crt")]  # once, to read: it is world-readable


OPEN_ALL = """
import json, os, sys
reached = []
for path in open(sys.argv[1]).read().splitlines():
    for how in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(path, how | os.O_NONBLOCK))
        except OSError:
            continue
        reached.append(path)
print(json.dumps(reached))
"""


def find_compute(settings: Settings, engine: object, endpoint: str) -> Compute:
    return Compute(EngineHome(settings, engine), make_compute_spec("", endpoint_id=EndpointId(endpoint)))  # type: ignore[arg-type]


def find_volume(settings: Settings, endpoint: EndpointId) -> Path:
    run = json.loads((settings.home / "run" / f"{endpoint}.json").read_text())
    return settings.home / "volumes" / str(run["volume_id"])


# Exhausting a resource affects only the tenant's own compute.

FORK_ALL = """
import os, signal, time
children = []
try:
    while len(children) < 2000:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
except OSError as error:
    print(type(error).__name__, len(children))
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


async def small_compute(home: EngineHome, controller: str, **changes: int) -> Compute:
    """A compute with little memory, reduced further while it runs."""
    require_root()
    groups = cgroups.detect_cgroups(home.settings)
    controllers = home.engine.capabilities().limits_summary
    require("cgroups", controller in controllers, f"this machine has no control groups for {controller}")
    compute = await home.create_compute()
    large_limits = ResourceLimits(memory_bytes=1024 * MIB, soft_memory_bytes=1024 * MIB, cu=0.25, pids=300)
    groups.add_process(compute.spec.endpoint_id, compute.pid, replace(large_limits, **changes))
    return compute


async def test_who_forks_without_end_is_stopped_and_the_neighbour_goes_on(home: EngineHome, neighbour: Compute) -> None:
    compute = await small_compute(home, "pids", pids=60)
    what, count = (await Attacker(compute).run_python(FORK_ALL)).split()
    assert what == "BlockingIOError"
    assert 0 < int(count) < 60
    assert await neighbour.fetch_value("select 1") == 1
    assert await compute.fetch_value("select 1") == 1


async def test_who_takes_memory_without_end_is_killed_and_the_neighbour_goes_on(
    home: EngineHome, neighbour: Compute
) -> None:
    compute = await small_compute(home, "memory", memory_bytes=256 * MIB)
    pid = neighbour.pid
    with pytest.raises((asyncpg.PostgresError, OSError), match=r"signal 9|child process|closed|reset"):
        await Attacker(compute).run_python(
            "import os; rows = [os.urandom(1024 * 1024) for _ in range(1024)]; print('done')"
        )
    assert await neighbour.fetch_value("select 1") == 1
    assert neighbour.pid == pid
    await compute.start()
    assert await compute.fetch_value("select 1") == 1
