"""A change to roles and databases survives its way through the operation's row, and leaves its secret at home."""

import json

import pytest

from bough.domain.change import (
    Asked,
    ChangeDatabase,
    DropDatabase,
    DropRole,
    MakeDatabase,
    MakeRole,
    SetPassword,
    read,
    written,
)

NAME = 'it\'s "grün" 🌿'


@pytest.mark.parametrize(
    "change",
    [
        MakeRole(name=NAME),
        MakeRole(name=NAME, can_login=False),
        SetPassword(name=NAME),
        DropRole(name=NAME),
        MakeDatabase(name=NAME, owner=NAME),
        ChangeDatabase(name=NAME, new_name="other", owner=NAME),
        DropDatabase(name=NAME),
    ],
)
def test_what_is_written_is_read_back(change: Asked) -> None:
    assert read(json.loads(json.dumps(written(change)))) == change


@pytest.mark.parametrize("kind", [MakeRole, SetPassword])
def test_a_verifier_is_not_written(kind: type[MakeRole | SetPassword]) -> None:
    fields = written(kind(name="app", verifier="SCRAM-SHA-256$secret"))
    assert "secret" not in json.dumps(fields)
    assert read(fields) == kind(name="app")
