"""A home of the previous version starts under this one, finishes its operations and serves its data.

The archive in `homes/` was packed after version 0.1.0 was killed (supervisor, control and computes) while two
operations were unfinished: the restore of the branch `dev` and the creation of the database `second`.
"""

import random
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from support.platform import temporary_folder
from support.program import ONE_WORKER, Program, wait_until
from support.requirements import require_root

ARCHIVE = Path(__file__).with_name("homes") / "0.1.0.tar.xz"
PROJECT, MAIN, DEV = "wandering-sky-24463599", "br-polished-silence-f0n0oleg", "br-old-credit-l3th2pnu"
SNAPSHOT = "snap-odd-scene-rpnir7t9"
OTHER_PROJECT, OTHER_MAIN = "patient-sun-26793955", "br-small-term-djl6ubjo"
UNFINISHED = {"29cfd29c-3cb5-40c8-9269-59c155cd747e", "0551c875-14fc-4bd5-8703-ee008411c24d"}
PACKED_UIDS = range(2_000_000_000, 2_000_000_100)
ROWS_ON_MAIN, ROWS_IN_SNAPSHOT = 120, 100


def unpack(folder: Path, first_uid: int) -> Path:
    """Unpack the home with other user ids: other homes on this machine may use those of the archive."""

    def shift(number: int) -> int:
        return number - PACKED_UIDS.start + first_uid if number in PACKED_UIDS else number

    def relocate(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid, member.gid = shift(member.uid), shift(member.gid)
        member.uname = member.gname = ""
        path = Path(member.name)
        if path.parent.name == "uids":
            member.name = str(path.with_name(str(shift(int(path.name)))))
        return member

    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = lambda member, _folder: member  # later versions of Python would drop the user ids
        archive.extractall(folder, map(relocate, archive.getmembers()), numeric_owner=True)
    return folder / "home"


@pytest.fixture
def earlier_home() -> Iterator[Program]:
    require_root()
    first_uid = random.randrange(2_010_000_000, 2_020_000_000, 100)
    variables = {**ONE_WORKER, "BOUGH_PROJECT_UIDS": f"[{first_uid}, {first_uid + 100}]"}
    with temporary_folder(0o755) as folder:
        program = Program(unpack(folder, first_uid), variables)
        yield program
        program.clean_up()


@dataclass
class Api:
    client: httpx2.Client

    def get(self, path: str) -> Any:
        return _json_of(self.client.get(path))

    def post(self, path: str, body: Any = None) -> Any:
        return _json_of(self.client.post(path, json=body))

    def wait_for_operations(self, project: str) -> dict[str, str]:
        """The status of each operation by id, when all have ended."""

        def statuses() -> dict[str, str] | None:
            found = self.get(f"/projects/{project}/operations")["operations"]
            ended = all(each["status"] not in {"scheduling", "running", "cancelling"} for each in found)
            return {each["id"]: each["status"] for each in found} if ended else None

        return wait_until(statuses, 60)

    def connect(self, project: str, branch: str, database: str = "neondb") -> psycopg.Connection[tuple[Any, ...]]:
        parameters = f"branch_id={branch}&database_name={database}&role_name=neondb_owner"
        uri = self.get(f"/projects/{project}/connection_uri?{parameters}")["uri"]
        return psycopg.connect(uri, hostaddr="127.0.0.1")

    def count_rows(self, project: str, branch: str) -> int:
        with self.connect(project, branch) as connection:
            row = connection.execute("select count(*) from kept").fetchone()
            assert row is not None
            return int(row[0])


def _json_of(response: httpx2.Response) -> Any:
    assert response.is_success, response.text
    return response.json()


@contextmanager
def connect_to_api(up_output: dict[str, Any]) -> Iterator[Api]:
    headers = {"Authorization": f"Bearer {up_output['api_key']}"}
    with httpx2.Client(base_url=up_output["api_url"], headers=headers) as client:
        yield Api(client)


def check_finished_operations(api: Api) -> None:
    statuses = api.wait_for_operations(PROJECT) | api.wait_for_operations(OTHER_PROJECT)
    assert statuses.keys() >= UNFINISHED
    assert set(statuses.values()) == {"finished"}


def check_branches(api: Api) -> None:
    branches = {each["name"]: each["id"] for each in api.get(f"/projects/{PROJECT}/branches")["branches"]}
    assert branches == {"main": MAIN, "dev": DEV, "next": branches["next"]}
    for branch in branches.values():  # `dev` had 100 rows before the restore
        assert api.count_rows(PROJECT, branch) == ROWS_ON_MAIN
    with api.connect(OTHER_PROJECT, OTHER_MAIN, "second") as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def check_snapshot(api: Api) -> None:
    restored = api.post(f"/projects/{PROJECT}/snapshots/{SNAPSHOT}/restore", {"name": "from-snapshot"})["branch"]["id"]
    api.wait_for_operations(PROJECT)
    assert api.count_rows(PROJECT, restored) == ROWS_IN_SNAPSHOT


@pytest.mark.timeout(600)
def test_a_home_of_the_previous_version_finishes_its_operations_and_serves(earlier_home: Program) -> None:
    with connect_to_api(earlier_home.up()) as api:
        check_finished_operations(api)
        check_branches(api)
        check_snapshot(api)
