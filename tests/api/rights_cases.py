"""The expected access rights: a row for each kind of action, and the routes that need it."""

import re
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from api.rights_setup import AUTHENTICATED, UNAUTHENTICATED, RightsSetup
from bough import clock
from bough.domain.invitation import Invitation
from bough.domain.organization import MemberRole
from bough.ids import InvitationId
from support.accounts import add_account, add_member, add_organization, finish_operations
from support.contract import ContractOperation

Request = tuple[str, Any]  # path and body
RequestBuilder = Callable[[RightsSetup, str], Awaitable[Request]]  # for that kind of caller

# Admin, member, editor, viewer, collaborator; key of the organization, of the project; shared with, stranger.
RIGHTS = {
    "read": "+ + + + 404   + +   + 404",
    "change": "+ + + 403 404   + +   + 404",  # and reveal passwords
    "see people": "+ + + + 404   + 403   403 404",
    "share": "+ 403 403 403 404   + 403   403 404",  # and delete, and create transfer requests
    "see organization": "+ + + + +   + +   404 404",
    "see members": "+ + + + 403   + 403   404 404",  # and the consumption of the organization
    "make project keys": "+ + + 403 403   + 403   404 404",  # and list keys
    "revoke an admin's key": "+ 404 404 403 403   403 403   404 404",
    "audit": "+ 403 403 403 403   + 403   404 404",
    "manage": "+ 403 403 403 403   403 403   404 404",
    "create projects": "+ + 403 403 403   + 403   404 404",
    "anything": "+ + + + +   + +   + +",
    "one's own account": "+ + + + +   404 404   + +",
    "in person": "+ + + + +   403 403   + +",
    "take over": "+ + + + +   409 403   + +",  # the organization of the key already owns the project
    "run the platform": "403 403 403 403 403   403 403   403 403",
}


@dataclass(frozen=True, slots=True)
class Case:
    operation: ContractOperation
    right: str
    build_request: RequestBuilder
    status: int = 200
    needs_new_project: bool = False

    def __str__(self) -> str:
        return f"{self.operation.method} {self.operation.path} ({self.right})"

    @property
    def hides_existence(self) -> bool:
        """Whether the path names an object whose existence is hidden from strangers."""
        return any(name in self.operation.path for name in ("{project_id}", "{org_id}", "{source_org_id}"))

    def expected_status(self, who: str) -> int:
        if who in UNAUTHENTICATED:
            return 401
        cell = RIGHTS[self.right].split()[AUTHENTICATED.index(who)]
        return self.status if cell == "+" else int(cell)

    def replace_ids(self, here: RightsSetup, path: str) -> str:
        """The same path with ids that do not exist."""
        kept = path.replace(here.organization.id, "org-made-up-12345678")
        return re.sub(r"/projects/(?!transfer|shared)[a-z0-9-]+", "/projects/made-up-12345678", kept)


def list_covered_operations() -> frozenset[ContractOperation]:
    return frozenset(case.operation for case in CASES)


def _at(path: str, body: Any = None) -> RequestBuilder:
    async def ask(here: RightsSetup, _who: str) -> Request:
        return _filled(here, path), body

    return ask


def _filled(here: RightsSetup, path: str) -> str:
    places = {
        "project_id": here.project_id,
        "branch_id": here.branch_id,
        "endpoint_id": here.endpoint_id,
        "operation_id": here.project["operations"][0]["id"],
        "org_id": here.organization.id,
        "source_org_id": here.organization.id,
        "role_name": "neondb_owner",
        "database_name": "neondb",
        "member_id": here.members[MemberRole.VIEWER].id,
    }
    return path.format(**places)


def _named(path: str, wrap: str, **fields: Any) -> RequestBuilder:
    """Returns a body with an unused name."""

    async def ask(here: RightsSetup, _who: str) -> Request:
        return _filled(here, path), {wrap: {"name": f"n-{uuid.uuid4().hex[:12]}", **fields}}

    return ask


def _new(created: str, body: Any, named: Callable[[Any], Any], rest: str = "", then: Any = None) -> RequestBuilder:
    """Creates an object as admin, and returns the request that another caller tries with it."""

    async def ask(here: RightsSetup, _who: str) -> Request:
        place = _filled(here, created)
        return f"{place}/{named(await here.create(place, body))}{rest}", then

    return ask


async def _new_branch(here: RightsSetup, _who: str) -> Request:
    place = _filled(here, f"{P}/branches")
    return f"{place}/{(await here.create(place, {}))['branch']['id']}", None


async def _deleted_branch(here: RightsSetup, who: str) -> Request:
    path, _ = await _new_branch(here, who)
    assert (await here.admin.delete(path)).status_code == 200
    await here.finish_operations()
    return f"{path}/recover", None


async def _reset(here: RightsSetup, who: str) -> Request:
    path, _ = await _new_branch(here, who)
    return f"{path}/restore", {"source_branch_id": here.branch_id}


async def _new_role(here: RightsSetup, _who: str) -> Request:
    place, name = _filled(here, f"{B}/roles"), f"r{uuid.uuid4().hex[:12]}"
    await here.create(place, {"role": {"name": name}})
    return f"{place}/{name}", None


async def _new_database(here: RightsSetup, _who: str) -> Request:
    place, name = _filled(here, f"{B}/databases"), f"d{uuid.uuid4().hex[:12]}"
    await here.create(place, {"database": {"name": name, "owner_name": "neondb_owner"}})
    return f"{place}/{name}", None


async def _new_replica(here: RightsSetup, _who: str) -> Request:
    place = _filled(here, f"{P}/endpoints")
    body = {"endpoint": {"branch_id": here.branch_id, "type": "read_only"}}
    return f"{place}/{(await here.create(place, body))['endpoint']['id']}", None


async def _replica(here: RightsSetup, _who: str) -> Request:
    return _filled(here, f"{P}/endpoints"), {"endpoint": {"branch_id": here.branch_id, "type": "read_only"}}


def _snapshot(rest: str = "", body: Any = None) -> RequestBuilder:
    """Uses an existing snapshot."""

    async def ask(here: RightsSetup, _who: str) -> Request:
        created = await here.create(_filled(here, f"{B}/snapshot"))
        return f"/projects/{here.project_id}/snapshots/{created['snapshot']['id']}{rest}", body

    return ask


async def _restored(here: RightsSetup, _who: str) -> Request:
    path, _ = await _snapshot("/restore")(here, _who)
    return _filled(here, f"{P}/branches/{(await here.create(path))['branch']['id']}/finalize_restore"), None


async def _deleted(here: RightsSetup, _who: str) -> Request:
    assert (await here.admin.delete(f"/projects/{here.project_id}")).status_code in (200, 404)
    await here.finish_operations()
    return f"/projects/{here.project_id}/recover", None


async def _role_of_viewer(here: RightsSetup, _who: str) -> Request:
    path = _filled(here, f"{P}/members/{{member_id}}/role")
    assert (await here.admin.put(path, json={"role": "editor"})).status_code == 200
    return path, None


async def _new_member(here: RightsSetup, _who: str) -> Request:
    new_account = await add_account(here.api_app.services)
    member = await add_member(here.api_app.services, here.organization, new_account, MemberRole.MEMBER)
    return f"/organizations/{here.organization.id}/members/{member.id}", None


async def _own_key(here: RightsSetup, who: str) -> Request:
    if who not in here.accounts:
        return "/api_keys/0", None
    created = await here.clients[who].post("/api_keys", json={"key_name": "for a moment"})
    return f"/api_keys/{created.json()['id']}", None


async def _transfer_to_admin(here: RightsSetup, _who: str) -> Request:
    body = {
        "destination_org_id": here.accounts[MemberRole.ADMIN].organization.id,
        "project_ids": [here.project_id],
    }
    return _filled(here, "/organizations/{org_id}/projects/transfer"), body


async def _transfer_own(here: RightsSetup, who: str) -> Request:
    giver = here.accounts.get(who, here.accounts[MemberRole.ADMIN])
    team = await add_organization(here.api_app.services, giver)
    client = here.clients[who if who in here.accounts else MemberRole.ADMIN]
    created = await client.post("/projects", json={"project": {"org_id": giver.organization.id}})
    project_id = created.json()["project"]["id"]
    await finish_operations(here.api_app.services, project_id)
    return "/users/me/projects/transfer", {"destination_org_id": team.id, "project_ids": [project_id]}


async def _invited(here: RightsSetup, who: str) -> str:
    """Creates an invitation to another organization for this caller."""
    host = await add_account(here.api_app.services)
    team = await add_organization(here.api_app.services, host)
    now = clock.now()
    to = here.accounts.get(who, host).user.email
    invitation = Invitation(
        id=InvitationId.new(),
        org_id=team.id,
        email=to,
        role=MemberRole.MEMBER,
        digest=uuid.uuid4().hex,
        invited_by=host.user.id,
        invited_at=now,
        expires_at=now + timedelta(days=1),
    )
    async with here.api_app.services.store.transaction() as rows:
        await rows.invitations.replace(invitation)
    return invitation.id


async def _acceptance(here: RightsSetup, who: str) -> Request:
    return f"/bough/invitations/{await _invited(here, who)}/accept", None


async def _new_invitation(here: RightsSetup, _who: str) -> Request:
    body = {"invitations": [{"email": f"{uuid.uuid4().hex}@example.com", "role": "viewer"}]}
    created = await here.create(f"/organizations/{here.organization.id}/invitations", body)
    return f"/bough/organizations/{here.organization.id}/invitations/{created['invitations'][0]['id']}", None


async def _project(here: RightsSetup, _who: str) -> Request:
    return "/projects", {"project": {"org_id": here.organization.id}}


def _consumption(path: str) -> RequestBuilder:
    async def ask(here: RightsSetup, _who: str) -> Request:
        now = f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"
        metrics = "&metrics=compute_unit_seconds" if path.startswith("v2") else ""
        query = f"from={now}&to={now}&granularity=daily&project_ids={here.project_id}{metrics}"
        return f"/consumption_history/{path}?org_id={here.organization.id}&{query}", None

    return ask


async def _project_key(here: RightsSetup, _who: str) -> Request:
    body = {"key_name": "ci", "project_id": here.project_id}
    return f"/organizations/{here.organization.id}/api_keys", body


async def _somebody(here: RightsSetup, _who: str) -> Request:
    somebody = await add_account(here.api_app.services)
    return f"/bough/users/{somebody.user.id}/reset", None


P = "/projects/{project_id}"
B = f"{P}/branches/{{branch_id}}"
E = f"{P}/endpoints/{{endpoint_id}}"
O = "/organizations/{org_id}"  # noqa: E741  beside P, B and E
OURS = "/bough/organizations/{org_id}"
URI = "?role_name=neondb_owner&database_name=neondb"
ROLE, DATABASE = f"{B}/roles/{{role_name}}", f"{B}/databases/{{database_name}}"
INVITED = {"invitations": [{"email": "somebody@example.com", "role": "viewer"}]}
OFFER = f"{P}/transfer_requests"
SCHEDULE = f"{B}/backup_schedule"
STATEMENT, NO_STATEMENT = f"/bough{E}/statements/{{handle}}", f"/bough{E}/statements/none"


def _case(method: str, path: str, row: str, ask: RequestBuilder | None = None, **options: Any) -> Case:
    return Case(ContractOperation(method, path), row, ask or _at(path), **options)


CASES = (
    *(_case("GET", path, "read") for path in (P, f"{P}/branches", f"{P}/branches/count", B, f"{B}/endpoints")),
    *(_case("GET", path, "read") for path in (f"{B}/roles", ROLE, f"{B}/databases", DATABASE)),
    *(_case("GET", path, "read") for path in (f"{P}/endpoints", E, f"{P}/operations")),
    _case("GET", f"{P}/operations/{{operation_id}}", "read"),
    _case("GET", f"{P}/connection_uri", "change", _at(f"{P}/connection_uri{URI}")),
    _case("GET", f"{ROLE}/reveal_password", "change"),
    _case("PATCH", P, "change", _at(P, {"project": {"name": "renamed"}})),
    _case("POST", f"{P}/branches", "change", _at(f"{P}/branches", {}), status=201),
    _case("PATCH", B, "change", _named(B, "branch")),
    _case("DELETE", B, "change", _new_branch),
    _case("POST", f"{B}/recover", "change", _deleted_branch),
    _case("POST", f"{B}/restore", "change", _reset),
    _case("POST", f"{B}/set_as_default", "change"),
    _case("POST", f"{B}/set_as_primary", "change"),
    _case("POST", f"{B}/roles", "change", _named(f"{B}/roles", "role"), status=201),
    _case("POST", f"{ROLE}/reset_password", "change"),
    _case("DELETE", ROLE, "change", _new_role),
    _case(
        "POST", f"{B}/databases", "change", _named(f"{B}/databases", "database", owner_name="neondb_owner"), status=201
    ),
    _case("PATCH", DATABASE, "change", _at(DATABASE, {"database": {"owner_name": "neondb_owner"}})),
    _case("DELETE", DATABASE, "change", _new_database),
    _case("POST", f"{P}/endpoints", "change", _replica, status=201),
    _case("PATCH", E, "change", _at(E, {"endpoint": {"pooler_enabled": True}})),
    _case("DELETE", E, "change", _new_replica),
    *(_case("POST", f"{E}/{verb}", "change") for verb in ("start", "suspend", "restart")),
    _case("GET", f"{P}/available_preload_libraries", "read"),
    # The compute does not run in these tests, and the handle is none.
    *(_case("GET", f"/bough{E}/{name}", "change", status=412) for name in ("statement_statistics", "statements")),
    _case("DELETE", f"/bough{E}/statement_statistics", "change", status=412),
    *(
        _case("POST", f"{STATEMENT}/{verb}", "change", _at(f"{NO_STATEMENT}/{verb}"), status=400)
        for verb in ("cancel", "terminate")
    ),
    _case("GET", f"{P}/snapshots", "read"),
    _case("GET", SCHEDULE, "read"),
    _case("PUT", SCHEDULE, "change", _at(SCHEDULE, {"schedule": []})),
    _case("POST", f"{B}/snapshot", "change"),
    _case("PATCH", f"{P}/snapshots/{{snapshot_id}}", "change", _snapshot(body={"snapshot": {}})),
    _case("DELETE", f"{P}/snapshots/{{snapshot_id}}", "change", _snapshot(), status=202),
    _case("POST", f"{P}/snapshots/{{snapshot_id}}/restore", "change", _snapshot("/restore")),
    _case("POST", f"{B}/finalize_restore", "change", _restored),
    _case("DELETE", P, "share", needs_new_project=True),
    _case("POST", f"{P}/recover", "share", _deleted, needs_new_project=True),
    _case("GET", f"{P}/permissions", "see people"),
    _case("POST", f"{P}/permissions", "share", _at(f"{P}/permissions", {"email": "somebody@example.com"})),
    _case(
        "DELETE",
        f"{P}/permissions/{{permission_id}}",
        "share",
        _new(f"{P}/permissions", {"email": "somebody@example.com"}, lambda created: created["id"]),
    ),
    _case("GET", f"{P}/members", "see people"),
    _case(
        "PUT",
        f"{P}/members/{{member_id}}/role",
        "share",
        _at(f"{P}/members/{{member_id}}/role", {"role": "viewer"}),
    ),
    _case("DELETE", f"{P}/members/{{member_id}}/role", "share", _role_of_viewer),
    _case("POST", OFFER, "share", status=201),
    _case(
        "PUT",
        f"{OFFER}/{{request_id}}",
        "take over",
        _new(OFFER, {}, lambda created: created["id"]),
        status=204,
        needs_new_project=True,
    ),
    _case("GET", O, "see organization"),
    _case("GET", f"{O}/members", "see members"),
    _case("GET", f"{O}/members/{{member_id}}", "see members", None),
    _case("PATCH", f"{O}/members/{{member_id}}", "manage", _at(f"{O}/members/{{member_id}}", {"role": "viewer"})),
    _case("DELETE", f"{O}/members/{{member_id}}", "manage", _new_member),
    _case("GET", f"{O}/invitations", "see members"),
    _case("POST", f"{O}/invitations", "manage", _at(f"{O}/invitations", INVITED)),
    _case("GET", f"{O}/api_keys", "make project keys"),
    _case("POST", f"{O}/api_keys", "manage", _at(f"{O}/api_keys", {"key_name": "ci"})),
    _case("POST", f"{O}/api_keys", "make project keys", _project_key),
    _case(
        "DELETE",
        f"{O}/api_keys/{{key_id}}",
        "revoke an admin's key",
        _new(f"{O}/api_keys", {"key_name": "ci"}, lambda created: created["id"]),
    ),
    _case(
        "POST", "/organizations/{source_org_id}/projects/transfer", "manage", _transfer_to_admin, needs_new_project=True
    ),
    _case("POST", "/users/me/projects/transfer", "in person", _transfer_own),
    _case("GET", "/projects", "anything"),
    _case("GET", "/projects", "see organization", _at("/projects?org_id={org_id}")),
    _case("GET", "/projects/shared", "anything"),
    _case("POST", "/projects", "create projects", _project, status=201),
    *(_case("GET", path, "anything") for path in ("/auth", "/regions")),
    *(_case("GET", path, "one's own account") for path in ("/users/me", "/users/me/organizations", "/api_keys")),
    _case("POST", "/api_keys", "one's own account", _at("/api_keys", {"key_name": "mine"})),
    _case("DELETE", "/api_keys/{key_id}", "one's own account", _own_key),
    _case("POST", "/bough/organizations", "in person", _at("/bough/organizations", {"name": "team"}), status=201),
    _case("PATCH", OURS, "manage", _at(OURS, {"name": "another name"})),
    _case("GET", "/bough/invitations", "in person"),
    _case("POST", "/bough/invitations/{invitation_id}/accept", "in person", _acceptance),
    _case("DELETE", f"{OURS}/invitations/{{invitation_id}}", "manage", _new_invitation),
    _case("GET", "/consumption_history/account", "see members", _consumption("account")),
    *(
        _case("GET", f"/consumption_history/{path}", "see organization", _consumption(path))
        for path in ("projects", "v2/projects", "v2/branches")
    ),
    _case("GET", "/bough/audit", "audit", _at("/bough/audit?org_id={org_id}")),
    _case("GET", "/bough/postgres", "run the platform"),
    _case("POST", f"/bough{E}/restart", "run the platform"),
    _case("GET", f"/bough{P}/maintenance", "read"),
    _case("GET", "/bough/extensions", "read", _at("/bough/extensions?project_id={project_id}")),
    *(_case("GET", f"/bough{each}/metrics", "read") for each in (B, E)),
    _case("GET", "/bough/machine/metrics", "run the platform"),
    _case("GET", "/bough/users", "run the platform"),
    _case("POST", "/bough/users", "run the platform", _at("/bough/users", {"email": "new@example.com"}), status=201),
    _case("POST", "/bough/users/{user_id}/reset", "run the platform", _somebody),
)
