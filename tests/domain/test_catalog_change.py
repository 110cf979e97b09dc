"""Changes of roles and databases are stored and read back without their secrets."""

import json

import pytest

from bough.domain.catalog_change import (
    AlterDatabase,
    CreateDatabase,
    CreateRole,
    DropDatabase,
    DropRole,
    RequestedChange,
    SetPassword,
    decode_change,
    encode_change,
)

NAME = 'it\'s "grün" 🌿'


@pytest.mark.parametrize(
    "change",
    [
        CreateRole(name=NAME),
        CreateRole(name=NAME, can_login=False),
        SetPassword(name=NAME),
        DropRole(name=NAME),
        CreateDatabase(name=NAME, owner=NAME),
        AlterDatabase(name=NAME, new_name="other", owner=NAME),
        DropDatabase(name=NAME),
    ],
)
def test_what_is_written_is_read_back(change: RequestedChange) -> None:
    assert decode_change(json.loads(json.dumps(encode_change(change)))) == change


@pytest.mark.parametrize("kind", [CreateRole, SetPassword])
def test_a_verifier_is_not_written(kind: type[CreateRole | SetPassword]) -> None:
    fields = encode_change(kind(name="app", verifier="SCRAM-SHA-256$secret"))
    assert "secret" not in json.dumps(fields)
    assert decode_change(fields) == kind(name="app")
