"""A model of access rights, independent of the code under test: roles, project roles, permissions and keys."""

from dataclasses import dataclass, field

LEVELS = ("", "VIEWER", "EDITOR", "ADMIN")
ROLE_LEVELS = {"admin": 3, "member": 2, "editor": 2, "viewer": 1, "collaborator": 0}
PROJECT_ROLE_LEVELS = {"viewer": 1, "editor": 2, "admin": 3}


@dataclass(slots=True)
class ModelKey:
    org: str
    project: str | None  # None: all projects of the organization
    created_by: str
    is_valid: bool = True


@dataclass(slots=True)
class RightsModel:
    """Users, organizations and projects by their names in the test."""

    roles: dict[str, dict[str, str]]  # organization → user → role
    personal_organizations: frozenset[str]  # organizations with one member
    owners: dict[str, str]  # project → organization
    project_roles: dict[tuple[str, str], str] = field(default_factory=dict)  # project, user → role
    shared: set[tuple[str, str]] = field(default_factory=set)  # project, user
    keys: dict[str, ModelKey] = field(default_factory=dict)

    def role(self, org: str, person: str) -> str | None:
        return self.roles[org].get(person)

    def is_admin(self, org: str, person: str) -> bool:
        return self.role(org, person) == "admin"

    def is_last_admin(self, org: str, person: str) -> bool:
        return self.is_admin(org, person) and list(self.roles[org].values()).count("admin") == 1

    def level(self, project: str, person: str) -> int:
        role = self.role(self.owners[project], person)
        if role == "admin":
            return 3
        inside = 0
        if role is not None:
            project_role = self.project_roles.get((project, person))
            inside = PROJECT_ROLE_LEVELS[project_role] if project_role else ROLE_LEVELS[role]
        return max(inside, 2) if (project, person) in self.shared else inside

    def list_projects(self, person: str) -> set[str]:
        """The projects that `GET /projects` returns."""
        return {each for each in self.owners if self.role(self.owners[each], person) and self.level(each, person)}

    def list_shared_projects(self, person: str) -> set[str]:
        return {each for each in self.owners if not self.role(self.owners[each], person) and self.level(each, person)}

    def list_key_projects(self, name: str) -> set[str]:
        """The projects that a key gives access to."""
        key = self.keys[name]
        return {each for each in self.owners if self.owners[each] == key.org and key.project in (None, each)}

    def remove_member(self, org: str, person: str) -> None:
        del self.roles[org][person]
        for project, whose in list(self.project_roles):
            if whose == person and self.owners[project] == org:
                del self.project_roles[project, whose]

    def transfer_project(self, project: str, org: str) -> None:
        self.owners[project] = org
        self.project_roles = {pair: role for pair, role in self.project_roles.items() if pair[0] != project}
        self.shared = {pair for pair in self.shared if pair[0] != project}
        for key in self.keys.values():
            key.is_valid &= key.project != project

    def can_receive_project(self, org: str, person: str) -> bool:
        return self.role(org, person) in ("admin", "member")
