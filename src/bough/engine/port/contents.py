"""The roles and databases of a branch, as an engine lists them."""

from dataclasses import dataclass
from datetime import datetime

MAX_LISTED = 2000  # roles, and databases, of a branch that are listed at most


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRole:
    """A role as it is in Postgres."""

    name: str
    can_login: bool
    verifier: str | None  # None: it has no password
    valid_until: datetime | None  # when its password expires


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDatabase:
    name: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsQuery:
    """How many roles and databases to list: known ones first, then the oldest."""

    max_roles: int = MAX_LISTED
    max_databases: int = MAX_LISTED
    known_roles: tuple[str, ...] = ()
    known_databases: tuple[str, ...] = ()


DEFAULT_CONTENTS_QUERY = ContentsQuery()


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchContents:
    """The roles and databases of a branch, without those of the platform and of Postgres itself."""

    roles: tuple[ObservedRole, ...]
    databases: tuple[ObservedDatabase, ...]
    unlisted_roles: int = 0  # how many more exist
    unlisted_databases: int = 0

    def is_complete_for(self, query: ContentsQuery) -> bool:
        """Return whether nothing is unlisted and the query's limits are met."""
        is_complete = not self.unlisted_roles and not self.unlisted_databases
        return is_complete and len(self.roles) <= query.max_roles and len(self.databases) <= query.max_databases
