"""Hosts in a file that belongs to everybody: what is ours comes and goes, what is not stays as it is."""

import asyncio
import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import pytest

from bough import hosts_file
from bough.config import Settings
from bough.control.platform import hostnames
from bough.control.platform.hostnames import Hostnames, LiveEndpoints
from bough.domain.endpoint import EndpointHosts
from bough.ids import EndpointId

OTHERS = b"127.0.0.1 localhost\n# a remark\n::1 localhost  ip6-localhost\n\n10.0.0.1\tep-of-somebody-else\n"
REGION = "aws-us-east-2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_bytes(OTHERS)
    return path


def settings_in(file: Path, home: str = "one", **changes: object) -> Settings:
    return Settings.model_validate({"home": file.parent / home, "hosts_file": file, **changes})


def names_in(settings: Settings) -> Hostnames:
    return Hostnames(settings, EndpointHosts(domain=settings.domain, port=settings.gateway_port or 5432))


def endpoints(*ids: str) -> LiveEndpoints:
    return [(EndpointId(one), REGION) for one in ids]


async def keep(where: Hostnames, live: LiveEndpoints) -> bool:
    async def read() -> LiveEndpoints:
        return live

    return await where.sync(read)


@pytest.fixture
def unresolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostnames, "resolve_without_file", lambda _settings: False)


@pytest.mark.usefixtures("unresolved")
async def test_a_host_is_there_before_anybody_is_told_of_it(file: Path) -> None:
    where = names_in(settings_in(file, gateway_port=15432))
    await where.publish(EndpointId("ep-calm-sea"), REGION)
    added = file.read_bytes().removeprefix(OTHERS).decode().splitlines()
    line = "127.0.0.1 ep-calm-sea.us-east-2.aws.localhost ep-calm-sea-pooler.us-east-2.aws.localhost"
    assert added[1:-1] == [line]
    assert all(mark.startswith("#") and str(file.parent / "one") in mark for mark in (added[0], added[-1]))
    seen = file.stat()
    await where.publish(EndpointId("ep-calm-sea"), REGION)
    assert file.stat().st_mtime_ns == seen.st_mtime_ns, "it was there"


@pytest.mark.usefixtures("unresolved")
async def test_the_file_names_live_endpoints_only_and_none_when_there_are_none(file: Path) -> None:
    where = names_in(settings_in(file))
    assert await keep(where, endpoints("ep-a", "ep-b"))
    assert not await keep(where, endpoints("ep-a", "ep-b"))
    assert await keep(where, endpoints("ep-b"))
    assert b"ep-a." not in file.read_bytes()
    assert await keep(where, [])
    assert file.read_bytes() == OTHERS


@pytest.mark.usefixtures("unresolved")
async def test_two_homes_have_a_block_each(file: Path) -> None:
    one, two = settings_in(file, "one"), settings_in(file, "two")
    await keep(names_in(one), endpoints("ep-a"))
    await keep(names_in(two), endpoints("ep-b"))
    await keep(names_in(one), endpoints("ep-a", "ep-c"))
    assert all(f"{name}.us-east-2".encode() in file.read_bytes() for name in ("ep-a", "ep-b", "ep-c"))
    assert hostnames.remove_all(one)
    assert not hostnames.remove_all(one)
    assert b"ep-a." not in file.read_bytes()
    assert b"ep-b." in file.read_bytes()
    hostnames.remove_all(two)
    assert file.read_bytes() == OTHERS


@pytest.mark.usefixtures("unresolved")
async def test_lines_of_others_stay_wherever_they_are_written(file: Path) -> None:
    settings = settings_in(file)
    await keep(names_in(settings), endpoints("ep-a", "ep-b"))
    text = file.read_text().replace("127.0.0.1 ep-b.", "192.0.2.7 printer\n127.0.0.1 ep-b.") + "192.0.2.8 scanner"
    file.write_text(text)
    await keep(names_in(settings), endpoints("ep-c"))
    hostnames.remove_all(settings)
    assert file.read_bytes() == OTHERS + b"192.0.2.7 printer\n192.0.2.8 scanner\n"


@pytest.mark.usefixtures("unresolved")
async def test_a_block_whose_end_was_lost_takes_nothing_of_others_with_it(file: Path) -> None:
    settings = settings_in(file)
    await keep(names_in(settings), endpoints("ep-a"))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + b"192.0.2.7 printer\n")
    hostnames.remove_all(settings)
    assert file.read_bytes() == OTHERS + b"192.0.2.7 printer\n"


@pytest.mark.usefixtures("unresolved")
async def test_the_same_file_is_written_and_not_another_in_its_place(file: Path) -> None:
    before = file.stat().st_ino
    await keep(names_in(settings_in(file)), endpoints("ep-a"))
    hostnames.remove_all(settings_in(file))
    assert file.stat().st_ino == before, "a container mounts that very file"


async def test_nothing_is_done_where_hosts_resolve_by_themselves(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_in(file)
    with monkeypatch.context() as patched:
        patched.setattr(hostnames, "resolve_without_file", lambda _settings: False)
        await keep(names_in(settings), endpoints("ep-a"))
    monkeypatch.setattr(hostnames, "resolve_without_file", lambda _settings: True)
    where = names_in(settings)
    await where.publish(EndpointId("ep-b"), REGION)
    assert await keep(where, endpoints("ep-a", "ep-b")), "what was needed once goes"
    assert file.read_bytes() == OTHERS


@pytest.mark.usefixtures("unresolved")
@pytest.mark.parametrize("changes", [{"domain": "db.example"}, {"hosts_file": None}])
async def test_other_domains_and_a_file_that_is_off_are_left_alone(file: Path, changes: dict[str, object]) -> None:
    where = names_in(settings_in(file).model_copy(update=changes))
    await where.publish(EndpointId("ep-a"), REGION)
    await keep(where, endpoints("ep-a"))
    assert file.read_bytes() == OTHERS


@pytest.mark.usefixtures("unresolved")
async def test_a_file_that_is_gone_or_held_fails_nobody(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts_file, "LOCK_TIMEOUT", 0.05)
    where = names_in(settings_in(file))
    with hosts_file._open_locked(file):
        await where.publish(EndpointId("ep-a"), REGION)
    assert file.read_bytes() == OTHERS
    file.unlink()
    await where.publish(EndpointId("ep-a"), REGION)
    assert not file.exists()
    assert not hostnames.remove_all(settings_in(file))


@pytest.mark.usefixtures("unresolved")
async def test_one_announced_while_the_file_is_kept_is_not_lost(file: Path) -> None:
    where = names_in(settings_in(file))
    announced: list[asyncio.Task[None]] = []

    async def read() -> LiveEndpoints:
        announced.append(asyncio.create_task(where.publish(EndpointId("ep-new"), REGION)))
        await asyncio.sleep(0.05)
        return endpoints("ep-a")

    await where.sync(read)
    await announced[0]
    assert b"ep-new." in file.read_bytes()


def _many(file: Path, home: str, ids: Sequence[str]) -> None:
    owner = f"bough {home}"
    for one in ids:
        hosts_file.add_line(file, owner, f"127.0.0.1 {one}.localhost")


def test_homes_that_write_at_once_lose_nothing(file: Path) -> None:
    spawning = multiprocessing.get_context("spawn")
    every = {home: [f"ep-{home}-{number}" for number in range(40)] for home in ("one", "two", "three")}
    writers = [spawning.Process(target=_many, args=(file, home, ids)) for home, ids in every.items()]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    text = file.read_bytes()
    assert text.startswith(OTHERS)
    assert all(f" {one}.localhost".encode() in text for ids in every.values() for one in ids)
    for home in every:
        hosts_file.write_lines(file, f"bough {home}", [])
    assert file.read_bytes() == OTHERS


def test_this_machine_is_asked() -> None:
    """Whatever it answers, it does so soon; a domain that cannot exist never resolves."""
    assert hostnames.resolve_without_file(Settings()) in {True, False}
    assert not hostnames.resolve_without_file(Settings(domain="nowhere.invalid"))
