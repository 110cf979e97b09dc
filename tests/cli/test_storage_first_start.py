"""The first start in a new home on ext4: as root, it creates a thin storage image without being asked."""

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bough.config import default_cache
from bough.engine.local.debian import architecture
from bough.engine.local.folders import Folders
from bough.engine.local.installs.installs import find_installs
from support.deb_files import make_file
from support.debian_mirror import DebianMirror, FolderHandler, FolderServer, serve_folder
from support.install_cache import copy_cache
from support.loop_images import mount_loop_image
from support.mirror_program import APT, MirrorProgram
from support.platform import temporary_folder
from support.program import NOBODY, ONE_WORKER, Program, Result, create_project, make_environment, wait_until
from support.requirements import require_cow, require_root
from support.storage import list_loop_devices, list_mounts, release_mounts, storage_settings

MB = 1024**2
DISK_MB = 2500
MKFS = Path("/usr/sbin/mkfs.xfs")
PLAIN = "Branches will be full copies of their parents: "


@pytest.fixture
def disk() -> Iterator[Path]:
    require_cow()
    with mount_loop_image("ext4", DISK_MB) as folder, release_mounts(folder):
        yield folder


@pytest.fixture
def bough(disk: Path) -> Iterator[MirrorProgram]:
    program = MirrorProgram(disk / "home", ONE_WORKER)
    yield program
    program.clean_up()


def start(bough: Program, *arguments: str, **variables: str) -> Result:
    """Start the platform as a user does: with nothing prepared."""
    done = bough("up", "--detach", "--json", *bough.port_arguments(), *arguments, **variables)
    assert done.returncode == 0, done.stderr
    bough.up_output = json.loads(done.stdout)
    return done


def storage_status(bough: Program) -> dict[str, Any]:
    status: dict[str, Any] = json.loads(bough.run("storage", "status", "--home", str(bough.home), "--json").stdout)
    return status


def diagnose(bough: Program) -> str:
    findings = {each["name"]: each for each in json.loads(bough("doctor", "--json").stdout)}
    return str(findings["storage"]["sentence"])


def find_warnings(done: Result) -> list[str]:
    return [line for line in done.stderr.splitlines() if PLAIN in line]


def assert_has_image(bough: Program) -> None:
    """The home has one image, which is mounted once, and nothing of an interrupted attempt."""
    assert storage_status(bough)["driver"] == "reflink"
    assert not list(bough.home.glob("*.making"))
    assert len(list_mounts(bough.home)) == len(list_loop_devices(bough.home)) == 1


def test_the_first_start_creates_a_thin_image_where_branches_share_data(bough: Program, disk: Path) -> None:
    assert diagnose(bough).startswith("the first `bough up` creates a storage image")
    free = shutil.disk_usage(disk).free
    done = start(bough)
    assert f"Created the storage image {bough.home}/storage.img (at most " in done.stderr
    assert find_warnings(done) == []
    assert_has_image(bough)
    image = storage_status(bough)["image"]
    assert (image["thin"], image["mounted"]) == (True, True)
    assert free - 64 * MB < image["size"] <= free
    assert image["allocated"] < free / 2
    assert bough.status()["image"]["file"] == str(bough.home / "storage.img")
    rows = dict(line.split("  ", 1) for line in bough("status").stdout.splitlines())
    assert rows["image"].strip().startswith(f"{bough.home}/storage.img (thin, ")
    assert diagnose(bough) == "reflink: branches share unchanged data"
    assert_a_branch_shares_data(bough)


@pytest.mark.long
def test_the_numbers_of_free_space_agree(bough: Program, disk: Path) -> None:
    start(bough)
    stored = storage_status(bough)
    reported = bough.status()
    image_free, disk_free = (shutil.disk_usage(each).free for each in (bough.home / "storage", disk))
    possible = image_free + disk_free - stored["floor"]
    assert abs(stored["free"] - possible) < 64 * MB
    assert abs(reported["storage_free_bytes"] - possible) < 64 * MB
    assert stored["refuses_new"] is None


def assert_a_branch_shares_data(bough: Program) -> None:
    """So its creation takes as long for much data as for little."""
    project = create_project(bough.up_output, "orchard")
    sql = "create table kept as select n, repeat(md5(n::text), 60) as filler from generate_series(1, 60000) n"
    done = bough.run("psql", "orchard", "--home", str(bough.home), "-c", sql)
    assert done.returncode == 0, done.stderr
    before = storage_status(bough)
    create_branch(bough, project["project"]["id"])
    after = storage_status(bough)
    volumes = {each["branch"]: each for each in after["volumes"] if each["project"] == "orchard"}
    assert volumes["child"]["shared"] > 120 * MB
    assert volumes["child"]["own"] < 20 * MB
    assert before["free"] - after["free"] < 60 * MB


def create_branch(bough: Program, project_id: str) -> None:
    request = urllib.request.Request(
        f"{bough.up_output['api_url']}/projects/{project_id}/branches",
        data=json.dumps({"branch": {"name": "child"}}).encode(),
        headers={"Authorization": f"Bearer {bough.up_output['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        assert response.status == 201
    wait_until(lambda: bough.status()["operations_open"] == 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "variables"),
    [pytest.param(("--storage", "plain"), {}, id="flag"), pytest.param((), {"BOUGH_STORAGE": "plain"}, id="setting")],
)
def test_the_operator_can_say_no(bough: Program, arguments: tuple[str, ...], variables: dict[str, str]) -> None:
    done = start(bough, *arguments, **variables)
    assert find_warnings(done) == []
    status = storage_status(bough)
    assert status["image"] is None
    assert status["driver"] == "plain"
    assert bough.status()["image"] is None


@pytest.mark.long
def test_an_existing_home_stays_as_it_is(bough: Program) -> None:
    start(bough, "--storage", "plain")
    assert bough("down").returncode == 0
    done = start(bough)
    assert find_warnings(done) == []
    assert storage_status(bough)["image"] is None
    assert diagnose(bough).startswith("plain: every branch is a full copy")


@pytest.mark.long
def test_an_ordinary_user_is_told_what_it_costs(bough: Program) -> None:
    bough.home.mkdir(mode=0o711)
    os.chown(bough.home, NOBODY, NOBODY)
    bough.variables = {**ONE_WORKER, "BOUGH_CACHE": str(default_cache())}
    done = bough.run_as_user(NOBODY, "up", "--detach", "--json", *bough.port_arguments())
    assert done.returncode == 0, done.stderr
    [warning] = find_warnings(done)
    assert warning.endswith("Start a new home with sudo, or put it on btrfs or XFS with --home DIR.")
    assert bough.run_as_user(NOBODY, "down").returncode == 0


@pytest.mark.long
def test_in_memory_no_image_is_created() -> None:
    require_root()
    with temporary_folder() as folder:
        if not str(folder).startswith("/dev/shm"):
            pytest.skip("/dev/shm is not writable")
        program = MirrorProgram(folder / "home", ONE_WORKER)
        try:
            assert diagnose(program).startswith("plain: ")
            [warning] = find_warnings(start(program))
            assert "The home is on tmpfs, where no storage image is created." in warning
        finally:
            program.clean_up()


def test_without_loop_devices_it_says_so(bough: MirrorProgram) -> None:
    bough.hidden = (Path("/dev/loop-control"), *Path("/dev").glob("loop[0-9]*"))
    [warning] = find_warnings(start(bough))
    assert "This machine or container offers no loop device" in warning
    assert "To get one later: `" in warning
    assert sorted(bough.home.glob("storage*")) == []
    assert storage_status(bough)["driver"] == "plain"


@pytest.fixture
def mirror(tmp_path: Path) -> DebianMirror:
    """A mirror with the `mkfs.xfs` of this machine, as a newer package than the locked one."""
    made = DebianMirror(tmp_path / "mirror")
    folder = f"usr/lib/{architecture.find_architecture().triplet}"
    lines = subprocess.run(["ldd", MKFS], check=True, capture_output=True, text=True).stdout.splitlines()
    paths = [Path(field) for line in lines for field in line.split() if field.startswith("/")]
    made.add("libc6", "99", [make_file(f"{folder}/{path.name}", path.read_bytes(), 0o755) for path in paths])
    made.add("xfsprogs", "99", [make_file("usr/sbin/mkfs.xfs", MKFS.read_bytes(), 0o755)], Depends="libc6 (>= 2)")
    made.add_keyring()
    made.publish()
    return made


@pytest.fixture
def site(mirror: DebianMirror) -> Iterator[FolderServer]:
    with serve_folder(mirror.folder) as served:
        yield served


@pytest.fixture
def bare_bough(bough: MirrorProgram, mirror: DebianMirror, site: FolderServer) -> Iterator[MirrorProgram]:
    """A program on a machine without `mkfs.xfs`, with a cache of its own."""
    with copy_cache(*find_installs(default_cache()).values()) as cache:
        bough.variables = {**ONE_WORKER, "BOUGH_CACHE": str(cache), "NO_PROXY": "127.0.0.1"}
        bough.mirror, bough.fingerprint, bough.hidden = site.url, mirror.fingerprint, (APT, MKFS)
        yield bough
        bough.clean_up()


def test_mkfs_comes_from_debian_where_the_machine_has_none(bare_bough: MirrorProgram, site: FolderServer) -> None:
    done = start(bare_bough)
    assert f"Created the storage image {bare_bough.home}/storage.img" in done.stderr
    assert bare_bough.status()["driver"] == "reflink"
    assert any("/xfsprogs_99_" in path for path in site.requests)
    cache = Path(bare_bough.variables["BOUGH_CACHE"])
    [program] = cache.glob("tools/xfsprogs-*/usr/sbin/mkfs.xfs")
    assert program.stat().st_uid == 0
    assert bare_bough("down").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("trouble", ["no mirror", "tampered"])
def test_without_a_trusted_mkfs_the_home_is_plain(
    bare_bough: MirrorProgram, mirror: DebianMirror, trouble: str
) -> None:
    if trouble == "no mirror":
        bare_bough.mirror = ""
    else:
        mirror.change(next((mirror.folder / "pool").rglob("xfsprogs_*.deb")), b"\xfd7zXZ", b"\xfd7zXY")
    [warning] = find_warnings(start(bare_bough))
    expected = "No mirror of Debian is known on this machine" if trouble == "no mirror" else "expected size and hash"
    assert expected in warning
    assert bare_bough.status()["driver"] == "plain"
    assert sorted(bare_bough.home.glob("storage*")) == []
    assert not list(Path(bare_bough.variables["BOUGH_CACHE"]).glob("tools/xfsprogs-*"))


@pytest.mark.long
def test_killed_while_mkfs_is_downloaded(bare_bough: MirrorProgram, site: FolderServer) -> None:
    def stall(_request: FolderHandler) -> bool:
        return not site.closing.wait(60)

    site.behaviours["/xfsprogs_99_" + architecture.find_architecture().name + ".deb"] = stall
    kill_when(bare_bough, lambda _home: any("/xfsprogs_99_" in path for path in site.requests))
    site.behaviours.clear()
    start(bare_bough)
    assert bare_bough.status()["driver"] == "reflink"
    assert not list(bare_bough.home.glob("*.making"))
    assert bare_bough("down").returncode == 0


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "the draft is written": lambda home: (home / "storage.json.making").exists(),
    "the file exists": lambda home: (home / "storage.img.making").exists(),
    "it is mounted": lambda home: (home / "storage").is_mount(),
    "the record is written": lambda home: (home / "storage.json").exists(),
    "its folders exist": lambda home: (home / "storage" / "volumes").exists(),
}


EVERY_DAY = ("the record is written",)


@pytest.mark.parametrize(
    "moment", [each if each in EVERY_DAY else pytest.param(each, marks=pytest.mark.long) for each in MOMENTS]
)
def test_killed_at_any_moment_the_next_start_has_one_image(bough: MirrorProgram, moment: str) -> None:
    kill_when(bough, MOMENTS[moment])
    if bough.status()["state"] != "stopped":  # the supervisor was detached already
        bough("down")
    start(bough)
    assert_has_image(bough)
    Folders(storage_settings(bough.home)).check_storage()


def kill_when(bough: MirrorProgram, condition: Callable[[Path], bool]) -> None:
    command = bough.command("up", "--home", str(bough.home), *bough.port_arguments())
    variables = {"BOUGH_DEBIAN_MIRROR": bough.mirror, **bough.variables}
    process = subprocess.Popen(
        command, env=make_environment(**variables), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and not condition(bough.home):
        time.sleep(0.001)
    process.kill()
    process.wait()
