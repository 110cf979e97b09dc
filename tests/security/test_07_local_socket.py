"""Rule 7: only its owner or a group can use the gateway's local socket, computes never can, and allowed_ips applies."""

import grp
import os
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from bough.config import Settings
from bough.errors import InvalidSetting
from bough.gateway.wire import messages
from bough.supervisor import gateway_listeners
from security.login_steps import PROJECT_UIDS, use_cheap_verifier
from security.os_users import connect_unix_as
from support import platform, requirements
from support.control_plane import make_access
from support.gateway import ENDPOINT, VERIFIER, InProcessGateway, open_gateway
from support.postgres import PostgresServer
from support.program import find_free_port

OTHER_UID = 65_533
SOCKET_CONNINFO = "host={folder} user=store dbname=postgres options=endpoint=" + ENDPOINT


@pytest.fixture
async def gateway(postgres_server: PostgresServer) -> AsyncIterator[InProcessGateway]:
    async with open_gateway(postgres_server, project_uids=PROJECT_UIDS) as opened:
        opened.folder.chmod(0o755)
        opened.socket.chmod(0o777)  # computes are rejected regardless of the mode
        use_cheap_verifier(opened)
        yield opened


async def test_a_compute_is_refused_whatever_the_mode_is(gateway: InProcessGateway) -> None:
    requirements.require_root()
    for uid in (PROJECT_UIDS[0], PROJECT_UIDS[1]):
        wire = await gateway.open_wire_client(connect_unix_as(uid, uid, str(gateway.socket)))
        wire.send_startup(0, options=f"endpoint={ENDPOINT}")
        error = await wire.read_error()
        assert (error.sqlstate, error.message) == (
            "28000",
            "a compute may not connect through the gateway's local socket",
        )
    wire = await gateway.open_wire_client(connect_unix_as(OTHER_UID, OTHER_UID, str(gateway.socket)))
    wire.send_startup(0, options=f"endpoint={ENDPOINT}")
    assert (await wire.read_message()).type == messages.AUTHENTICATION


async def test_the_addresses_that_a_project_allows_hold_there_too(gateway: InProcessGateway) -> None:
    gateway.control_plane.access_reply = replace(make_access(VERIFIER), allowed_networks=("10.0.0.0/8",))
    with pytest.raises(Exception, match=r"count as coming from 127\.0\.0\.1: add it to allowed_ips"):
        await gateway.query_with_libpq(SOCKET_CONNINFO)
    gateway.control_plane.access_reply = replace(gateway.control_plane.access_reply, allowed_networks=("127.0.0.1/32",))
    gateway.worker_services[0].cache.invalidate([ENDPOINT])
    assert await gateway.query_with_libpq(SOCKET_CONNINFO) == "1"


def make_settings(folder: Path, **more: str) -> Settings:
    return Settings(home=folder / "home", **more)


def read_modes(path: Path) -> tuple[int, int]:
    return stat.S_IMODE(path.parent.stat().st_mode), stat.S_IMODE(path.stat().st_mode)


def test_others_of_the_machine_cannot_reach_it(tmp_path: Path) -> None:
    requirements.require_root()
    with platform.temporary_folder() as folder:
        settings = make_settings(folder)
        opened = gateway_listeners.open_listeners(settings, find_free_port())
        path = Path(opened.local.getsockname())
        assert read_modes(path) == (0o700, 0o600)
        with pytest.raises(PermissionError):
            connect_unix_as(OTHER_UID, OTHER_UID, str(path))
        connect_unix_as(0, 0, str(path)).close()
        gateway_listeners.remove_local_socket(settings)
        opened.close()


def test_a_group_may_be_let_in_and_a_socket_of_before_is_closed_to_others() -> None:
    requirements.require_root()
    group = next(group for group in grp.getgrall() if group.gr_gid not in (0, OTHER_UID))
    with platform.temporary_folder() as folder:
        first = gateway_listeners.open_listeners(
            make_settings(folder, local_socket_group=group.gr_name), find_free_port()
        )
        path = Path(first.local.getsockname())
        assert read_modes(path) == (0o710, 0o660)
        connect_unix_as(OTHER_UID, group.gr_gid, str(path)).close()
        with pytest.raises(PermissionError):
            connect_unix_as(OTHER_UID, OTHER_UID, str(path))
        path.parent.chmod(0o755)
        path.chmod(0o777)  # as earlier versions left it
        settings = make_settings(folder)
        port = first.tcp[0].getsockname()[1]
        second = gateway_listeners.open_listeners(
            settings, port, [os.dup(listener.fileno()) for listener in first.tcp], first.local.detach()
        )
        assert read_modes(path) == (0o700, 0o600)
        gateway_listeners.remove_local_socket(settings)
        second.close()
        for listener in first.tcp:
            listener.close()


def test_a_group_that_is_not_there_is_named() -> None:
    requirements.require_root()
    with platform.temporary_folder() as folder, pytest.raises(InvalidSetting, match="no group 'nobody-is-in-it'"):
        gateway_listeners.open_listeners(make_settings(folder, local_socket_group="nobody-is-in-it"), find_free_port())
