"""Random days of a team: branches, endpoints, roles and databases come, change and go, and control dies in between."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from journeys.project_model import DATABASE, OWNER, BranchModel, ProjectModel
from journeys.served_project import TIMEOUT
from support.platform import temporary_folder
from support.program import Program

NAMES = st.sampled_from(["app", "o'wn \"er", "ünï.cödé", "x" * 63, "a/b", "%s"])
which = st.integers(0, 1_000_000)


@dataclass
class Served:
    bough: Program
    api: httpx2.Client
    port: int


@contextmanager
def _serving() -> Iterator[Served]:
    with temporary_folder(0o755) as folder:
        bough = Program(folder / "home")
        said = bough.up()
        headers = {"Authorization": f"Bearer {said['api_key']}"}
        # A request that control could not answer because it was just killed is sent again by every client.
        transport = httpx2.HTTPTransport(retries=20)
        with httpx2.Client(base_url=said["api_url"], headers=headers, timeout=TIMEOUT, transport=transport) as api:
            yield Served(bough, api, said["gateway_port"])
        bough.clean_up()


class Walk(RuleBasedStateMachine):
    served: ClassVar[Served]

    @initialize()
    def begin(self) -> None:
        self.day = ProjectModel.create(self.served.bough, self.served.api, self.served.port)
        self.numbers = 0

    def _one(self, number: int, among: list[BranchModel] | None = None) -> BranchModel:
        branches = self.day.existing_branches if among is None else among
        return branches[number % len(branches)]

    def _enterable(self) -> list[BranchModel]:
        return [branch for branch in self.day.existing_branches if branch.can_connect]

    @rule(kills=st.just(True))
    def control_dies_with_the_next_change(self, kills: bool) -> None:
        self.day.kills_control = kills

    @rule(number=which, endpoint=st.booleans(), protected=st.booleans(), schema_only=st.integers(0, 5))
    def create_branch(self, number: int, endpoint: bool, protected: bool, schema_only: int) -> None:
        if len(self.day.existing_branches) >= 8:
            return
        parent = self._one(number)
        self.numbers += 1
        asked: dict[str, Any] = {"branch": {"parent_id": parent.id, "name": f"b{self.numbers}", "protected": protected}}
        if endpoint:
            asked["endpoints"] = [{"type": "read_write"}]
        if not schema_only:
            asked["branch"]["init_source"] = "schema-only"
        made = self.day.request("POST", "/branches", asked, expected=201)
        passwords = {role["name"]: role["password"] for role in made["roles"]}
        assert passwords.keys() == parent.passwords.keys()
        assert (passwords == parent.passwords) != parent.is_protected
        self.day.branches.append(
            BranchModel(
                id=made["branch"]["id"],
                name=f"b{self.numbers}",
                parent=parent,
                passwords=passwords,
                databases=dict(parent.databases),
                rows=set(parent.rows) if schema_only else set(),
                is_protected=protected,
                endpoint=made["endpoints"][0]["id"] if endpoint else None,
            )
        )

    @rule(number=which)
    def delete_branch(self, number: int) -> None:
        branch = self._one(number)
        kept = branch.is_protected or branch.is_default or branch.parent is None or self.day.has_children(branch)
        self.day.request("DELETE", f"/branches/{branch.id}", expected=422 if kept else 200)
        if not kept:
            branch.is_deleted = True
            self.day.request("DELETE", f"/branches/{branch.id}", expected=204)

    @rule(number=which, protected=st.booleans())
    def protect(self, number: int, protected: bool) -> None:
        branch = self._one(number)
        self.day.request("PATCH", f"/branches/{branch.id}", {"branch": {"protected": protected}})
        branch.is_protected = protected

    @rule(number=which)
    def set_default(self, number: int) -> None:
        branch = self._one(number)
        self.day.request("POST", f"/branches/{branch.id}/set_as_default")
        for each in self.day.existing_branches:
            each.is_default = each is branch

    @rule(number=which)
    def create_endpoint(self, number: int) -> None:
        branch = self._one(number)
        asked = {"endpoint": {"branch_id": branch.id, "type": "read_write"}}
        made = self.day.request("POST", "/endpoints", asked, expected=422 if branch.endpoint else 201)
        if not branch.endpoint:
            branch.endpoint, branch.is_disabled = made["endpoint"]["id"], False

    @rule(number=which, verb=st.sampled_from(["start", "suspend", "restart", "disable", "enable", "delete"]))
    def move_endpoint(self, number: int, verb: str) -> None:
        branch = self._one(number)
        if branch.endpoint is None:
            return
        path = f"/endpoints/{branch.endpoint}"
        if verb == "delete":
            self.day.request("DELETE", path)
            branch.endpoint = None
        elif verb in ("disable", "enable"):
            branch.is_disabled = verb == "disable"
            self.day.request("PATCH", path, {"endpoint": {"disabled": branch.is_disabled}})
        else:
            refused = branch.is_disabled and verb != "suspend"
            self.day.request("POST", f"{path}/{verb}", expected=412 if refused else 200)

    @precondition(lambda self: self._enterable())
    @rule(number=which)
    def write(self, number: int) -> None:
        branch = self._one(number, self._enterable())
        self.numbers += 1
        self.day.execute(branch, f"insert into t values ({self.numbers})")
        branch.rows.add(self.numbers)

    @rule(number=which, name=NAMES)
    def create_role(self, number: int, name: str) -> None:
        branch = self._one(number)
        taken = name in branch.passwords
        made = self.day.request(
            "POST", f"/branches/{branch.id}/roles", {"role": {"name": name}}, expected=409 if taken else 201
        )
        if not taken:
            branch.passwords[name] = made["role"]["password"]

    @rule(number=which, name=NAMES)
    def delete_role(self, number: int, name: str) -> None:
        branch = self._one(number)
        owns = name in branch.databases.values()
        expected = 204 if name not in branch.passwords else 422 if owns else 200
        self.day.request("DELETE", f"/branches/{branch.id}/roles/{quote(name, safe='')}", expected=expected)
        if expected == 200:
            del branch.passwords[name]

    @rule(number=which, name=NAMES | st.just(OWNER))
    def reset_password(self, number: int, name: str) -> None:
        branch = self._one(number)
        known = name in branch.passwords
        path = f"/branches/{branch.id}/roles/{quote(name, safe='')}/reset_password"
        shown = self.day.request("POST", path, expected=200 if known else 404)
        if known:
            branch.passwords[name] = shown["role"]["password"]

    @rule(number=which, name=NAMES, owner=NAMES | st.just(OWNER))
    def create_database(self, number: int, name: str, owner: str) -> None:
        branch = self._one(number)
        expected = 409 if name in branch.databases else 400 if owner not in branch.passwords else 201
        body = {"database": {"name": name, "owner_name": owner}}
        self.day.request("POST", f"/branches/{branch.id}/databases", body, expected=expected)
        if expected == 201:
            branch.databases[name] = owner

    @rule(number=which, name=NAMES, new_name=NAMES | st.none(), owner=NAMES | st.none())
    def change_database(self, number: int, name: str, new_name: str | None, owner: str | None) -> None:
        branch = self._one(number)
        expected = 200
        if name not in branch.databases:
            expected = 404
        elif new_name is not None and new_name != name and new_name in branch.databases:
            expected = 409
        elif owner is not None and owner not in branch.passwords:
            expected = 400
        asked = {key: value for key, value in (("name", new_name), ("owner_name", owner)) if value is not None}
        path = f"/branches/{branch.id}/databases/{quote(name, safe='')}"
        self.day.request("PATCH", path, {"database": asked}, expected=expected)
        if expected == 200:
            branch.databases[new_name or name] = owner or branch.databases[name]
            if new_name not in (None, name):
                del branch.databases[name]

    @rule(number=which, name=NAMES)
    def delete_database(self, number: int, name: str) -> None:
        branch = self._one(number)
        known = name in branch.databases
        path = f"/branches/{branch.id}/databases/{quote(name, safe='')}"
        self.day.request("DELETE", path, expected=200 if known else 204)
        branch.databases.pop(name, None)

    def teardown(self) -> None:
        if not hasattr(self, "day"):
            return
        note(f"{len(self.day.branches)} branches")
        assert all(DATABASE in branch.databases for branch in self.day.existing_branches)
        self.day.compare()
        for branch in self.day.existing_branches:
            if branch.is_protected:
                self.day.request("PATCH", f"/branches/{branch.id}", {"branch": {"protected": False}})
        self.day.request("DELETE", "")


@pytest.mark.timeout(3600)
def test_the_platform_does_what_a_small_model_does(is_long_run: bool) -> None:
    steps, walks = (60, 20) if is_long_run else (18, 1)
    with _serving() as served:
        Walk.served = served
        # One search for every walk: a search that knows earlier walks takes a failure in a part that they
        # have in common for a change in what is drawn, and shows that instead of the failure.
        for _ in range(walks):
            run_state_machine_as_test(
                Walk,
                _min_steps=steps - 1,  # without it many a walk ends after a few
                settings=settings(
                    max_examples=2,  # the first is always the simplest one there is
                    stateful_step_count=steps,
                    deadline=None,
                    derandomize=not is_long_run,
                    phases=(Phase.explicit, Phase.generate),
                    suppress_health_check=list(HealthCheck),
                ),
            )
