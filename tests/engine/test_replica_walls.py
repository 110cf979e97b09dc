"""Isolation of read replicas from a tenant's own code, from other projects, and from an ordinary user."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from bough.config import default_cache
from support.attacker import Attacker
from support.engine_home import Compute, EngineHome
from support.platform import temporary_folder
from support.replicas import insert_numbers, start_replica, wait_for_numbers, wait_until_streaming
from support.requirements import require_root

LOGIN = """
import struct
def login(path, **words):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path + '/.s.PGSQL.5432')
        text = b''.join(word.encode() + bytes(1) for pair in words.items() for word in pair) + bytes(1)
        caller.sendall(struct.pack('>II', len(text) + 8, 196608) + text)
        answer = caller.recv(4096)
        if answer[:1] == b'E':
            raise PermissionError(answer)
        kind = struct.unpack('>I', answer[5:9])[0]
        if kind != 10:
            raise RuntimeError(f'let in by {kind}')
"""


async def test_by_the_side_door_a_tenants_code_can_do_nothing_but_ask_for_the_password(
    primary: Compute, home: EngineHome
) -> None:
    require_root()
    replica = await start_replica(primary)
    await wait_until_streaming(replica)
    stranger = await home.create_compute()
    replica_folder = home.settings.sockets / f"{primary.spec.endpoint_id}.side"
    own = home.settings.sockets / primary.spec.endpoint_id
    attempts = {
        "list it": "os.listdir(replica_folder)",
        "bind a socket in it": "bind(replica_folder + '/evil')",
        "put a link into it": "os.symlink('/tmp', replica_folder + '/evil')",
        "take the socket away": "os.unlink(replica_folder + '/.s.PGSQL.5432')",
        "replace the socket": "os.rename(replica_folder + '/.s.PGSQL.5432', replica_folder + '/old')",
        "replace the folder": "os.rename(replica_folder, replica_folder + '.old')",
        "open it to all": "os.chmod(replica_folder, 0o777)",
        "use the socket for the gateway": "connect(own + '/.s.PGSQL.5432')",
        "list the front": "os.listdir(own)",
        "enter as us": LOGIN + "login(replica_folder, user='bough_admin', database='postgres')",
        "enter as a tenant": LOGIN + "login(replica_folder, user='neondb_owner', database='neondb')",
        "enter as the replica": LOGIN + "login(replica_folder, user='bough_replica', database='neondb')",
        "stream as a tenant": LOGIN + "login(replica_folder, user='neondb_owner', replication='true')",
        "stream as us": LOGIN + "login(replica_folder, user='bough_admin', replication='true')",
        "decode as the replica": LOGIN
        + "login(replica_folder, user='bough_replica', replication='database', database='neondb')",
        "read our copy of the password": "open(volume + '/replication.json')",
        "change our copy of the password": "open(volume + '/replication.json', 'a')",
        "put another file in the replica's place": "os.rename(conf + '/replication.pass', conf + '/old')",
        "change the replica's settings": "open(conf + '/postgresql.conf', 'a')",
    }
    names = {
        "replica_folder": replica_folder,
        "own": own,
        "volume": primary.volume_folder,
        "conf": replica.volume_folder / "conf",
    }
    outcomes = await Attacker(primary).try_all(attempts, **names)
    assert {sentence: outcome for sentence, outcome in outcomes.items() if outcome != "refused"} == {}
    asked = {"stream as the replica": LOGIN + "login(replica_folder, user='bough_replica', replication='true')"}
    assert set((await Attacker(primary).try_all(asked, replica_folder=replica_folder)).values()) == {"done"}
    attempts = {
        "reach the replica folder of another project": "connect(replica_folder + '/.s.PGSQL.5432')",
        "read a stranger's password": "open(conf + '/replication.pass')",
    }
    outcomes = await Attacker(stranger).try_all(attempts, **names)
    assert set(outcomes.values()) == {"refused"}


async def test_the_password_is_in_no_setting(primary: Compute) -> None:
    replica = await start_replica(primary)
    password = json.loads((primary.volume_folder / "replication.json").read_text())["password"]
    async with replica.connect() as tenant:
        shown = [
            *await tenant.fetch("select setting from pg_settings"),
            *await tenant.fetch("table pg_stat_wal_receiver"),
        ]
    assert len(password) > 30
    assert password not in repr(shown)
    assert password not in (replica.volume_folder / "conf" / "postgresql.conf").read_text()
    mode = (replica.volume_folder / "conf" / "replication.pass").stat()
    assert (mode.st_uid, mode.st_mode & 0o777) == (replica.data_folder.stat().st_uid, 0o600)


async def test_a_link_in_the_place_of_its_signal_or_its_wal_is_not_followed(
    primary: Compute, traversable_folder: Path
) -> None:
    """Links that a tenant's code leaves in the copy do not make the platform write elsewhere."""
    require_root()
    replica = await start_replica(primary)
    await replica.suspend()
    await insert_numbers(primary, 2)
    await primary.suspend()
    target = traversable_folder / "target"
    target.write_text("ours")
    (replica.data_folder / "standby.signal").unlink()
    (replica.data_folder / "standby.signal").symlink_to(target)
    for segment in (replica.data_folder / "pg_wal").glob("0000*"):
        (replica.data_folder / "pg_wal" / f"{segment.name}.handed").symlink_to(target)
    await replica.start()
    await wait_for_numbers(replica, 1, 2)
    assert target.read_text() == "ours"


async def test_an_ordinary_user_has_replicas_too() -> None:
    require_root()
    with temporary_folder(0o777) as folder:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        script = Path(__file__).with_name("unprivileged_replica.py")
        command = [sys.executable, str(script), str(folder / "home"), str(default_cache())]
        done = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
    assert (done.returncode, done.stdout.split()) == (0, ["made", "followed", "woken", "gone"]), done.stderr
