"""A model of who has what, kept apart from the code it judges: roles, what was given on projects, keys."""

from dataclasses import dataclass, field

LEVELS = ("", "VIEWER", "EDITOR", "ADMIN")
USUAL = {"admin": 3, "member": 2, "editor": 2, "viewer": 1, "collaborator": 0}
GIVEN = {"viewer": 1, "editor": 2, "admin": 3}


@dataclass(slots=True)
class Key:
    org: str
    project: str | None  # None: all projects of the organization
    by: str
    alive: bool = True


@dataclass(slots=True)
class Model:
    """People, organizations and projects by their names in the test."""

    roles: dict[str, dict[str, str]]  # organization → person → role
    personal: frozenset[str]  # organizations with one member
    owner: dict[str, str]  # project → organization
    given: dict[tuple[str, str], str] = field(default_factory=dict)  # project, person → role
    shared: set[tuple[str, str]] = field(default_factory=set)  # project, person
    keys: dict[str, Key] = field(default_factory=dict)

    def role(self, org: str, person: str) -> str | None:
        return self.roles[org].get(person)

    def is_admin(self, org: str, person: str) -> bool:
        return self.role(org, person) == "admin"

    def is_last_admin(self, org: str, person: str) -> bool:
        return self.is_admin(org, person) and list(self.roles[org].values()).count("admin") == 1

    def level(self, project: str, person: str) -> int:
        role = self.role(self.owner[project], person)
        if role == "admin":
            return 3
        inside = 0
        if role is not None:
            given = self.given.get((project, person))
            inside = GIVEN[given] if given else USUAL[role]
        return max(inside, 2) if (project, person) in self.shared else inside

    def listed(self, person: str) -> set[str]:
        """What `GET /projects` shows."""
        return {each for each in self.owner if self.role(self.owner[each], person) and self.level(each, person)}

    def listed_as_shared(self, person: str) -> set[str]:
        return {each for each in self.owner if not self.role(self.owner[each], person) and self.level(each, person)}

    def reached(self, name: str) -> set[str]:
        """The projects that a key reaches."""
        key = self.keys[name]
        return {each for each in self.owner if self.owner[each] == key.org and key.project in (None, each)}

    def leaves(self, org: str, person: str) -> None:
        del self.roles[org][person]
        for project, whose in list(self.given):
            if whose == person and self.owner[project] == org:
                del self.given[project, whose]

    def moves(self, project: str, org: str) -> None:
        self.owner[project] = org
        self.given = {pair: role for pair, role in self.given.items() if pair[0] != project}
        self.shared = {pair for pair in self.shared if pair[0] != project}
        for key in self.keys.values():
            key.alive &= key.project != project

    def may_take(self, org: str, person: str) -> bool:
        return self.role(org, person) in ("admin", "member")
