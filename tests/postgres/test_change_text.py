"""Statements that change the contents of a branch, and the files of a stopped server."""

import struct

import pytest
from hypothesis import strategies as st

from bough.postgres import databases, roles, subscriptions
from bough.postgres.clone_filter import is_excluded
from bough.postgres.control_file import ControlFile
from bough.postgres.roles import create_or_alter

LSNS = st.integers(min_value=0, max_value=2**64 - 1)


def test_a_role_that_may_log_in_is_made_as_every_tenant_is() -> None:
    created = create_or_alter("app", "v", can_login=True, exists=False, major=17)
    assert created == roles.create("app", "v", 17)
    assert create_or_alter("app", None, can_login=True, exists=True, major=17) == [
        'alter role "app" login password null'
    ]


def test_a_group_has_no_rights_of_its_own_and_is_everybodys_to_give() -> None:
    assert create_or_alter("club", None, can_login=False, exists=False, major=17) == [
        'create role "club" nologin password null',
        'grant "club" to bough_tenants with admin true, inherit false, set true',
    ]
    assert create_or_alter("club", None, can_login=False, exists=False, major=15)[1].endswith("with admin option")
    assert create_or_alter("club", None, can_login=False, exists=True, major=17) == [
        'alter role "club" nologin password null'
    ]


def test_what_a_role_owned_goes_to_its_heir_before_the_rest_goes() -> None:
    assert roles.reassign_and_drop_owned("a", "b") == ['reassign owned by "a" to "b"', 'drop owned by "a"']
    assert roles.reassign_and_drop_owned("a", None) == ['drop owned by "a"']


def test_a_renamed_database_is_open_again_in_the_same_transaction() -> None:
    assert databases.rename("a", 'b"', "o") == [
        'alter database "a" rename to "b"""',
        'alter database "b""" allow_connections true',
        'alter database "b""" owner to "o"',
    ]


def test_the_control_file_tells_where_a_server_ended() -> None:
    content = struct.pack("<QIIIxxxxqQQI", 1, 1700, 202406281, 1, 0, 0x1_0000_0028, 0x1_0000_0028, 3)
    control = ControlFile.parse(content.ljust(8192, b"\0"))
    assert control.is_shut_down
    assert control.checkpoint == "1/28"
    assert control.first_segment == "000000030000000100000000"


def mapped(*pairs: tuple[int, int], magic: int = 0x592717, count: int | None = None) -> bytes:
    head = struct.pack("<II", magic, len(pairs) if count is None else count)
    return head + b"".join(struct.pack("<II", *pair) for pair in pairs) + bytes(64)


def test_the_map_tells_where_subscriptions_are() -> None:
    assert subscriptions.find_catalog_file(mapped((1262, 1262), (6100, 16999))) == "global/16999"
    assert subscriptions.find_catalog_file(mapped((1262, 1262))) is None
    assert not is_excluded("global/16999")


@pytest.mark.parametrize(
    "broken", [b"", b"\x17\x27\x59\x00", mapped((6100, 1), magic=1), mapped((6100, 1), count=65), mapped(count=60)]
)
def test_a_map_that_is_none_tells_nothing(broken: bytes) -> None:
    assert subscriptions.find_catalog_file(broken) is None
