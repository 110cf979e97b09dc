"""Steps of a random walk through sharing, transfers, roles and keys over HTTP, checked against the model."""

from dataclasses import dataclass, field
from typing import Any

import httpx2

from api.rights_model import LEVELS, ROLE_LEVELS, ModelKey, RightsModel
from support.accounts import Account, add_account, add_key, add_organization, finish_operations
from support.api_app import ApiApp

PEOPLE = ("ann", "ben", "cid")
ORGANIZATIONS = ("x", "y", "home of ann")
PROJECTS = ("one", "two", "three")
FAILURES = (400, 403, 404, 409, 422)


@dataclass(slots=True)
class RightsWalk:
    api_app: ApiApp
    model: RightsModel
    accounts: dict[str, Account]
    clients: dict[str, httpx2.AsyncClient]
    orgs: dict[str, str]
    projects: dict[str, str]
    keys: dict[str, tuple[httpx2.AsyncClient, int]] = field(default_factory=dict)
    offers: list[tuple[str, str]] = field(default_factory=list)  # project and transfer request that can be accepted

    @classmethod
    async def create(cls, app: ApiApp) -> "RightsWalk":
        accounts = {name: await add_account(app.services) for name in PEOPLE}
        clients = {name: app.client(await add_key(app.services, accounts[name])) for name in PEOPLE}
        x = await add_organization(app.services, accounts["ann"])
        y = await add_organization(app.services, accounts["ben"])
        home = accounts["ann"].organization
        orgs = {"x": str(x.id), "y": str(y.id), "home of ann": str(home.id)}
        model = RightsModel(
            roles={"x": {"ann": "admin"}, "y": {"ben": "admin"}, "home of ann": {"ann": "admin"}},
            personal_organizations=frozenset({"home of ann"}),
            owners={"one": "x", "two": "x", "three": "home of ann"},
        )
        projects = {}
        for name, org in model.owners.items():
            created = await clients["ann"].post("/projects", json={"project": {"org_id": orgs[org]}})
            projects[name] = str(created.json()["project"]["id"])
            await finish_operations(app.services, projects[name])
        return cls(api_app=app, model=model, accounts=accounts, clients=clients, orgs=orgs, projects=projects)

    async def close(self) -> None:
        for client in (*self.clients.values(), *(client for client, _ in self.keys.values())):
            await client.aclose()

    async def run_step(self, verb: str, who: str, thing: str, target: str, role: str) -> None:
        """Runs one step as the given user, or else as a user who is allowed to, and then checks all lists."""
        await getattr(self, verb)(who or self._find_permitted(verb, thing, target), thing, target, role)
        for each in PEOPLE:
            await self._check_lists(each)
        for name in self.keys:
            await self._check_key(name)

    def _find_permitted(self, verb: str, thing: str, target: str) -> str:
        if verb == "transfer":
            able = [each for each in PEOPLE if self.model.is_admin(self.model.owners[thing], each)]
            return next((each for each in able if self.model.can_receive_project(target, each)), able[0])
        org = thing if thing in self.orgs else self.model.owners[thing]
        if verb == "accept":
            return next((each for each in PEOPLE if self.model.can_receive_project(org, each)), PEOPLE[0])
        return next(each for each in PEOPLE if self.model.is_admin(org, each))

    # ── steps: each is tried by `who`, and succeeds exactly if the model says so ──

    async def invite(self, who: str, org: str, target: str, role: str) -> None:
        body = {"invitations": [{"email": self.accounts[target].user.email, "role": role}]}
        response = await self.clients[who].post(f"/organizations/{self.orgs[org]}/invitations", json=body)
        may = self.model.is_admin(org, who) and org not in self.model.personal_organizations
        if not self._check_outcome(response, may and self.model.role(org, target) is None, self.model.role(org, who)):
            return
        invitation = response.json()["invitations"][0]["id"]
        accepted = await self.clients[target].post(f"/bough/invitations/{invitation}/accept")
        assert accepted.status_code == 200, accepted.text
        self.model.roles[org][target] = role

    async def change_role(self, who: str, org: str, target: str, role: str) -> None:
        if (member := await self._member(org, target)) is None:
            return
        path = f"/organizations/{self.orgs[org]}/members/{member}"
        response = await self.clients[who].patch(path, json={"role": role})
        stays = role == "admin" or not self.model.is_last_admin(org, target)
        may = self.model.is_admin(org, who) and stays
        if self._check_outcome(response, may, self.model.role(org, who)):
            self.model.roles[org][target] = role

    async def remove(self, who: str, org: str, target: str, _role: str) -> None:
        if (member := await self._member(org, target)) is None:
            return
        response = await self.clients[who].delete(f"/organizations/{self.orgs[org]}/members/{member}")
        may = self.model.is_admin(org, who) or who == target
        can = not self.model.is_last_admin(org, target) and org not in self.model.personal_organizations
        if self._check_outcome(response, may and can, self.model.role(org, who)):
            self.model.remove_member(org, target)

    async def share(self, who: str, project: str, target: str, _role: str) -> None:
        body = {"email": self.accounts[target].user.email}
        response = await self.clients[who].post(f"/projects/{self.projects[project]}/permissions", json=body)
        if self._check_outcome(response, self.model.level(project, who) == 3, self.model.level(project, who)):
            self.model.shared.add((project, target))

    async def unshare(self, who: str, project: str, target: str, _role: str) -> None:
        owner = next(name for name in PEOPLE if self.model.is_admin(self.model.owners[project], name))
        path = f"/projects/{self.projects[project]}/permissions"
        listed = (await self.clients[owner].get(path)).json()["project_permissions"]
        email = self.accounts[target].user.email
        found = next((each["id"] for each in listed if each["granted_to_email"] == email), None)
        assert (found is not None) == ((project, target) in self.model.shared)
        if found is None:
            return
        response = await self.clients[who].delete(f"{path}/{found}")
        if self._check_outcome(response, self.model.level(project, who) == 3, self.model.level(project, who)):
            self.model.shared.discard((project, target))

    async def give(self, who: str, project: str, target: str, role: str) -> None:
        """Sets a role on one project. Roles that projects do not have remove it."""
        if (member := await self._member(self.model.owners[project], target)) is None:
            return
        path = f"/projects/{self.projects[project]}/members/{member}/role"
        if role in ("viewer", "editor", "admin"):
            confirmed = {"confirm_self_demotion": True}
            response = await self.clients[who].put(path, json={"role": role}, params=confirmed)
        else:
            response = await self.clients[who].delete(path, params={"confirm_self_lockout": True})
        if self._check_outcome(response, self.model.level(project, who) == 3, self.model.level(project, who)):
            self.model.project_roles.pop((project, target), None)
            if role in ("viewer", "editor", "admin"):
                self.model.project_roles[project, target] = role

    async def transfer(self, who: str, project: str, org: str, _role: str) -> None:
        source = self.model.owners[project]
        body = {"destination_org_id": self.orgs[org], "project_ids": [self.projects[project]]}
        response = await self.clients[who].post(f"/organizations/{self.orgs[source]}/projects/transfer", json=body)
        may = self.model.is_admin(source, who) and self.model.can_receive_project(org, who) and org != source
        if self._check_outcome(response, may, self.model.role(source, who)):
            self._record_transfer(project, org)

    async def offer(self, who: str, project: str, _target: str, _role: str) -> None:
        response = await self.clients[who].post(f"/projects/{self.projects[project]}/transfer_requests")
        may = self.model.is_admin(self.model.owners[project], who)
        if self._check_outcome(response, may, self.model.level(project, who)):
            self.offers.append((project, response.json()["id"]))

    async def accept(self, who: str, org: str, _target: str, _role: str) -> None:
        if not self.offers:
            return
        project, request = self.offers[-1]
        path = f"/projects/{self.projects[project]}/transfer_requests/{request}"
        response = await self.clients[who].put(path, json={"org_id": self.orgs[org]})
        may = self.model.can_receive_project(org, who) and self.model.owners[project] != org
        if self._check_outcome(response, may, self.model.role(org, who)):
            self._record_transfer(project, org)

    async def make_key(self, who: str, project: str, _target: str, role: str) -> None:
        """Creates a key for the project or for its whole organization."""
        org = self.model.owners[project]
        whole = role == "admin"
        body = {"key_name": "k"} | ({} if whole else {"project_id": self.projects[project]})
        response = await self.clients[who].post(f"/organizations/{self.orgs[org]}/api_keys", json=body)
        mine = self.model.role(org, who)
        may = mine == "admin" or (not whole and mine in ("member", "editor") and self.model.level(project, who) >= 2)
        if self._check_outcome(response, may, mine):
            created = response.json()
            name = f"key {created['id']}"
            self.model.keys[name] = ModelKey(org, None if whole else project, who)
            self.keys[name] = (self.api_app.client(created["key"]), created["id"])

    async def revoke_key(self, who: str, _project: str, _target: str, _role: str) -> None:
        if not self.keys:
            return
        name, key = list(self.model.keys.items())[-1]
        response = await self.clients[who].delete(f"/organizations/{self.orgs[key.org]}/api_keys/{self.keys[name][1]}")
        mine = self.model.role(key.org, who)
        may = mine == "admin" or (mine in ("member", "editor") and key.created_by == who and key.project is not None)
        if self._check_outcome(response, may and key.is_valid, mine):
            key.is_valid = False

    # ── what each user sees ──

    async def check(self) -> None:
        """Checks every list and every lookup."""
        for who in PEOPLE:
            await self._check_lists(who)
            await self._check_lookups(who)
        for name in self.keys:
            await self._check_key(name)

    async def _check_lists(self, who: str) -> None:
        client, names = self.clients[who], {each: name for name, each in self.projects.items()}
        for path, expected in (
            ("/projects", self.model.list_projects(who)),
            ("/projects/shared", self.model.list_shared_projects(who)),
        ):
            listed = (await client.get(path, params={"limit": 400})).json()["projects"]
            assert {names[each["id"]] for each in listed} == expected, f"{path} of {who}"
            for each in listed:
                assert each["effective_project_permission"] == LEVELS[self.model.level(names[each["id"]], who)]

    async def _check_lookups(self, who: str) -> None:
        client = self.clients[who]
        for name, project_id in self.projects.items():
            response = await client.get(f"/projects/{project_id}")
            level = self.model.level(name, who)
            assert response.status_code == (200 if level else 404), f"{who} looks at {name}"
            if level:
                assert response.json()["project"]["effective_project_permission"] == LEVELS[level]
        for name, org_id in self.orgs.items():
            response = await client.get(f"/organizations/{org_id}/members")
            role = self.model.role(name, who)
            assert response.status_code == (404 if role is None else 403 if role == "collaborator" else 200)
            if response.status_code == 200:
                seen = {each["user"]["email"]: each["member"]["role"] for each in response.json()["members"]}
                expected = {self.accounts[each].user.email: role for each, role in self.model.roles[name].items()}
                assert seen == expected
        mine = {each["id"] for each in (await client.get("/users/me/organizations")).json()["organizations"]}
        assert mine & set(self.orgs.values()) == {self.orgs[each] for each in self.orgs if self.model.role(each, who)}

    async def _check_key(self, name: str) -> None:
        client, _ = self.keys[name]
        listed = await client.get("/projects", params={"limit": 400})
        if not self.model.keys[name].is_valid:
            assert listed.status_code == 401, name
            return
        reached = {self.projects[each] for each in self.model.list_key_projects(name)}
        assert {each["id"] for each in listed.json()["projects"]} == reached, name
        for project_id in self.projects.values():
            assert (await client.get(f"/projects/{project_id}")).status_code == (200 if project_id in reached else 404)

    def _check_outcome(self, response: httpx2.Response, succeeds: bool, standing: Any) -> bool:
        """A user without any access gets 404."""
        if succeeds:
            assert response.status_code in (200, 201, 204), f"{response.request.method} {response.url}: {response.text}"
        else:
            assert response.status_code in FAILURES, f"{response.request.method} {response.url}: {response.status_code}"
            assert standing or response.status_code == 404, response.text
        return succeeds

    def _record_transfer(self, project: str, org: str) -> None:
        self.model.transfer_project(project, org)
        self.offers = [offer for offer in self.offers if offer[0] != project]

    async def _member(self, org: str, person: str) -> str | None:
        if self.model.role(org, person) is None:
            return None
        async with self.api_app.services.store.read() as rows:
            found = await rows.members.get_by_user(self.orgs[org], self.accounts[person].user.id)  # type: ignore[arg-type]
        assert found is not None, f"{person} is no member of {org}"
        return str(found.member.id)


ROLES = tuple(ROLE_LEVELS)
ORGANIZATION_STEPS = ("invite", "change_role", "remove", "accept")
PROJECT_STEPS = ("share", "give", "share", "give", "unshare", "offer", "make_key", "revoke_key")
