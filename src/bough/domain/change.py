"""A change to what is in a branch: its roles and databases. Each may be made twice and means the same.

The row of the operation carries it, without secrets: a verifier is read from the role's own row when it is made.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeRole:
    """The role is there, may log in or not, and has this password."""

    name: str
    can_login: bool = True
    verifier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPassword:
    """A role that is there has this password from now on."""

    name: str
    verifier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRole:
    """The role is gone. What it owned in a database belongs to the database's owner."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeDatabase:
    """The database is there, and has this owner."""

    name: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDatabase:
    """The database has another name, another owner, or both; whoever is in it is cut off for a new name."""

    name: str
    new_name: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    """The database is gone; whoever was in it is cut off."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rekey:
    """These roles have new passwords (role → verifier; None: no password), and every other role that may log in has
    none, or its own.
    """

    verifiers: Mapping[str, str | None]
    others_keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribe:
    """No subscription follows its publisher, nor could take the parent's place there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """The structure stays, and no row: of tables, of materialized views, of large objects, of statistics."""


Asked = MakeRole | SetPassword | DropRole | MakeDatabase | ChangeDatabase | DropDatabase  # by a user, for one thing
Change = Asked | Rekey | Unsubscribe | Empty

_KINDS: dict[str, type[Asked]] = {
    "make_role": MakeRole,
    "set_password": SetPassword,
    "drop_role": DropRole,
    "make_database": MakeDatabase,
    "change_database": ChangeDatabase,
    "drop_database": DropDatabase,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_SECRET = "verifier"


def written(change: Asked) -> dict[str, Any]:
    """For the operation's row."""
    fields = {name: value for name, value in asdict(change).items() if name != _SECRET}
    return {"kind": _NAMES[type(change)], **fields}


def read(fields: Mapping[str, Any]) -> Asked:
    return _KINDS[fields["kind"]](**{name: value for name, value in fields.items() if name != "kind"})
