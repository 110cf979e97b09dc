"""The gateway's local socket is for its owner, or a group; never for computes; and the project's rules hold there."""

import grp
import os
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import pytest

import requires
import world
from bough.cli.admin import listeners
from bough.config import Settings
from bough.errors import SettingRefused
from bough.gateway.wire import messages
from cli.program import free_port
from gateway import doorway as doorways
from gateway.doorway import ENDPOINT, Doorway
from gateway.planes import access
from security.logins import COMPUTES, make_quick
from security.users import local_of

SOMEBODY = 65_533
BY_SOCKET = "host={folder} user=store dbname=postgres options=endpoint=" + ENDPOINT


@pytest.fixture
async def doorway(postgres_server: world.PostgresServer) -> AsyncIterator[Doorway]:
    async with doorways.doorway(postgres_server, project_uids=COMPUTES) as opened:
        opened.folder.chmod(0o755)
        opened.socket.chmod(0o777)  # whatever its mode is, computes are refused
        make_quick(opened)
        yield opened


async def test_a_compute_is_refused_whatever_the_mode_is(doorway: Doorway) -> None:
    requires.require_root()
    for uid in (COMPUTES[0], COMPUTES[1]):
        wire = await doorway.wire(local_of(uid, uid, str(doorway.socket)))
        wire.start(0, options=f"endpoint={ENDPOINT}")
        trouble = await wire.trouble()
        assert (trouble.code, trouble.message) == (
            "28000",
            "a compute may not connect by the gateway's local socket",
        )
    wire = await doorway.wire(local_of(SOMEBODY, SOMEBODY, str(doorway.socket)))
    wire.start(0, options=f"endpoint={ENDPOINT}")
    assert (await wire.message()).type == messages.AUTHENTICATION


async def test_the_addresses_that_a_project_allows_hold_there_too(doorway: Doorway) -> None:
    doorway.plane.answer = replace(access(doorways.VERIFIER), networks=(ip_network("10.0.0.0/8"),))
    with pytest.raises(Exception, match=r"count as coming from 127\.0\.0\.1: add it to allowed_ips"):
        await doorway.libpq(BY_SOCKET)
    doorway.plane.answer = replace(doorway.plane.answer, networks=(ip_network("127.0.0.1/32"),))
    doorway.rooms[0].remembering.drop([ENDPOINT])
    assert await doorway.libpq(BY_SOCKET) == "1"


def settings_of(folder: Path, **more: str) -> Settings:
    return Settings(home=folder / "home", **more)


def modes(path: Path) -> tuple[int, int]:
    return stat.S_IMODE(path.parent.stat().st_mode), stat.S_IMODE(path.stat().st_mode)


def test_others_of_the_machine_cannot_reach_it(tmp_path: Path) -> None:
    requires.require_root()
    with world.short_folder() as folder:
        settings = settings_of(folder)
        opened = listeners.opened(settings, free_port())
        path = Path(opened.door.getsockname())
        assert modes(path) == (0o700, 0o600)
        with pytest.raises(PermissionError):
            local_of(SOMEBODY, SOMEBODY, str(path))
        local_of(0, 0, str(path)).close()
        listeners.remove_door(settings)
        opened.close()


def test_a_group_may_be_let_in_and_a_socket_of_before_is_closed_to_others() -> None:
    requires.require_root()
    group = next(each for each in grp.getgrall() if each.gr_gid not in (0, SOMEBODY))
    with world.short_folder() as folder:
        first = listeners.opened(settings_of(folder, local_socket_group=group.gr_name), free_port())
        path = Path(first.door.getsockname())
        assert modes(path) == (0o710, 0o660)
        local_of(SOMEBODY, group.gr_gid, str(path)).close()
        with pytest.raises(PermissionError):
            local_of(SOMEBODY, SOMEBODY, str(path))
        path.parent.chmod(0o755)
        path.chmod(0o777)  # as versions before left it to the next one
        settings = settings_of(folder)
        port = first.tcp[0].getsockname()[1]
        again = listeners.opened(settings, port, [os.dup(each.fileno()) for each in first.tcp], first.door.detach())
        assert modes(path) == (0o700, 0o600)
        listeners.remove_door(settings)
        again.close()
        for each in first.tcp:
            each.close()


def test_a_group_that_is_not_there_is_named() -> None:
    requires.require_root()
    with world.short_folder() as folder, pytest.raises(SettingRefused, match="no group 'nobody-is-in-it'"):
        listeners.opened(settings_of(folder, local_socket_group="nobody-is-in-it"), free_port())
