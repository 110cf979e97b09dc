"""Random changes of branches, endpoints, roles and databases, while control is killed at times.

Every change is also made in a model, and the platform must agree with it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, HypothesisException
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from journeys.project_model import DATABASE, OWNER, BranchModel, ProjectModel
from journeys.served_project import TIMEOUT
from support.platform import temporary_folder
from support.program import Program

NAMES = st.sampled_from(["app", "o'wn \"er", "ünï.cödé", "x" * 63, "a/b", "%s"])
INDEXES = st.integers(0, 1_000_000)


@dataclass
class PlatformClient:
    bough: Program
    api: httpx2.Client
    port: int


@contextmanager
def _start_platform() -> Iterator[PlatformClient]:
    with temporary_folder(0o755) as folder:
        bough = Program(folder / "home")
        up_output = bough.up()
        headers = {"Authorization": f"Bearer {up_output['api_key']}"}
        # Like other clients, this one repeats requests for which control was not reachable.
        transport = httpx2.HTTPTransport(retries=20)
        with httpx2.Client(base_url=up_output["api_url"], headers=headers, timeout=TIMEOUT, transport=transport) as api:
            yield PlatformClient(bough, api, up_output["gateway_port"])
        bough.clean_up()


class ProjectWalk(RuleBasedStateMachine):
    client: ClassVar[PlatformClient]
    failures: ClassVar[list[Exception]]

    @initialize()
    def begin(self) -> None:
        self.model = ProjectModel.create(self.client.bough, self.client.api, self.client.port)
        self.counter = 0

    def _choose(self, index: int, candidates: list[BranchModel] | None = None) -> BranchModel:
        branches = self.model.existing_branches if candidates is None else candidates
        return branches[index % len(branches)]

    def _list_connectable(self) -> list[BranchModel]:
        return [branch for branch in self.model.existing_branches if branch.can_connect]

    @rule(kills=st.just(True))
    def control_dies_with_the_next_change(self, kills: bool) -> None:
        self.model.kills_control = kills

    @rule(index=INDEXES, endpoint=st.booleans(), protected=st.booleans(), schema_only=st.integers(0, 5))
    def create_branch(self, index: int, endpoint: bool, protected: bool, schema_only: int) -> None:
        if len(self.model.existing_branches) >= 8:
            return
        parent = self._choose(index)
        self.counter += 1
        body: dict[str, Any] = {"branch": {"parent_id": parent.id, "name": f"b{self.counter}", "protected": protected}}
        if endpoint:
            body["endpoints"] = [{"type": "read_write"}]
        if not schema_only:
            body["branch"]["init_source"] = "schema-only"
        created = self.model.request("POST", "/branches", body, expected=201)
        passwords = {role["name"]: role["password"] for role in created["roles"]}
        assert passwords.keys() == parent.passwords.keys()
        assert (passwords == parent.passwords) != parent.is_protected
        self.model.branches.append(
            BranchModel(
                id=created["branch"]["id"],
                name=f"b{self.counter}",
                parent=parent,
                passwords=passwords,
                databases=dict(parent.databases),
                rows=set(parent.rows) if schema_only else set(),
                is_protected=protected,
                endpoint=created["endpoints"][0]["id"] if endpoint else None,
            )
        )

    @rule(index=INDEXES)
    def delete_branch(self, index: int) -> None:
        branch = self._choose(index)
        is_refused = (
            branch.is_protected or branch.is_default or branch.parent is None or self.model.has_children(branch)
        )
        self.model.request("DELETE", f"/branches/{branch.id}", expected=422 if is_refused else 200)
        if not is_refused:
            branch.is_deleted = True
            self.model.request("DELETE", f"/branches/{branch.id}", expected=204)

    @rule(index=INDEXES, protected=st.booleans())
    def protect(self, index: int, protected: bool) -> None:
        branch = self._choose(index)
        self.model.request("PATCH", f"/branches/{branch.id}", {"branch": {"protected": protected}})
        branch.is_protected = protected

    @rule(index=INDEXES)
    def set_default(self, index: int) -> None:
        branch = self._choose(index)
        self.model.request("POST", f"/branches/{branch.id}/set_as_default")
        for each in self.model.existing_branches:
            each.is_default = each is branch

    @rule(index=INDEXES)
    def create_endpoint(self, index: int) -> None:
        branch = self._choose(index)
        body = {"endpoint": {"branch_id": branch.id, "type": "read_write"}}
        created = self.model.request("POST", "/endpoints", body, expected=422 if branch.endpoint else 201)
        if not branch.endpoint:
            branch.endpoint, branch.is_disabled = created["endpoint"]["id"], False

    @rule(index=INDEXES, action=st.sampled_from(["start", "suspend", "restart", "disable", "enable", "delete"]))
    def change_endpoint(self, index: int, action: str) -> None:
        branch = self._choose(index)
        if branch.endpoint is None:
            return
        path = f"/endpoints/{branch.endpoint}"
        if action == "delete":
            self.model.request("DELETE", path)
            branch.endpoint = None
        elif action in ("disable", "enable"):
            branch.is_disabled = action == "disable"
            self.model.request("PATCH", path, {"endpoint": {"disabled": branch.is_disabled}})
        else:
            is_refused = branch.is_disabled and action != "suspend"
            self.model.request("POST", f"{path}/{action}", expected=412 if is_refused else 200)

    @precondition(lambda self: self._list_connectable())
    @rule(index=INDEXES)
    def write(self, index: int) -> None:
        branch = self._choose(index, self._list_connectable())
        self.counter += 1
        self.model.execute(branch, f"insert into t values ({self.counter})")
        branch.rows.add(self.counter)

    @rule(index=INDEXES, name=NAMES)
    def create_role(self, index: int, name: str) -> None:
        branch = self._choose(index)
        exists = name in branch.passwords
        created = self.model.request(
            "POST", f"/branches/{branch.id}/roles", {"role": {"name": name}}, expected=409 if exists else 201
        )
        if not exists:
            branch.passwords[name] = created["role"]["password"]

    @rule(index=INDEXES, name=NAMES)
    def delete_role(self, index: int, name: str) -> None:
        branch = self._choose(index)
        owns_database = name in branch.databases.values()
        expected = 204 if name not in branch.passwords else 422 if owns_database else 200
        self.model.request("DELETE", f"/branches/{branch.id}/roles/{quote(name, safe='')}", expected=expected)
        if expected == 200:
            del branch.passwords[name]

    @rule(index=INDEXES, name=NAMES | st.just(OWNER))
    def reset_password(self, index: int, name: str) -> None:
        branch = self._choose(index)
        exists = name in branch.passwords
        path = f"/branches/{branch.id}/roles/{quote(name, safe='')}/reset_password"
        response = self.model.request("POST", path, expected=200 if exists else 404)
        if exists:
            branch.passwords[name] = response["role"]["password"]

    @rule(index=INDEXES, name=NAMES, owner=NAMES | st.just(OWNER))
    def create_database(self, index: int, name: str, owner: str) -> None:
        branch = self._choose(index)
        expected = 409 if name in branch.databases else 400 if owner not in branch.passwords else 201
        body = {"database": {"name": name, "owner_name": owner}}
        self.model.request("POST", f"/branches/{branch.id}/databases", body, expected=expected)
        if expected == 201:
            branch.databases[name] = owner

    @rule(index=INDEXES, name=NAMES, new_name=NAMES | st.none(), owner=NAMES | st.none())
    def change_database(self, index: int, name: str, new_name: str | None, owner: str | None) -> None:
        branch = self._choose(index)
        expected = 200
        if name not in branch.databases:
            expected = 404
        elif new_name is not None and new_name != name and new_name in branch.databases:
            expected = 409
        elif owner is not None and owner not in branch.passwords:
            expected = 400
        body = {key: value for key, value in (("name", new_name), ("owner_name", owner)) if value is not None}
        path = f"/branches/{branch.id}/databases/{quote(name, safe='')}"
        self.model.request("PATCH", path, {"database": body}, expected=expected)
        if expected == 200:
            branch.databases[new_name or name] = owner or branch.databases[name]
            if new_name not in (None, name):
                del branch.databases[name]

    @rule(index=INDEXES, name=NAMES)
    def delete_database(self, index: int, name: str) -> None:
        branch = self._choose(index)
        exists = name in branch.databases
        path = f"/branches/{branch.id}/databases/{quote(name, safe='')}"
        self.model.request("DELETE", path, expected=200 if exists else 204)
        branch.databases.pop(name, None)

    def teardown(self) -> None:
        step_failure = sys.exc_info()[1]
        if isinstance(step_failure, Exception) and not isinstance(step_failure, HypothesisException):
            self.failures.append(step_failure)
        elif hasattr(self, "model"):
            try:
                self._compare_and_delete()
            except Exception as failure:
                self.failures.append(failure)
                raise

    def _compare_and_delete(self) -> None:
        note(f"{len(self.model.branches)} branches")
        assert all(DATABASE in branch.databases for branch in self.model.existing_branches)
        self.model.compare()
        for branch in self.model.existing_branches:
            if branch.is_protected:
                self.model.request("PATCH", f"/branches/{branch.id}", {"branch": {"protected": False}})
        self.model.request("DELETE", "")


@pytest.mark.timeout(3600)
def test_the_platform_does_what_a_small_model_does(is_long_run: bool) -> None:
    steps, walks = (60, 20) if is_long_run else (18, 1)
    with _start_platform() as client:
        ProjectWalk.client, ProjectWalk.failures = client, []
        # Each walk is a separate Hypothesis run. Within one run, a failure in a prefix shared with an earlier walk is
        # reported as inconsistent data generation instead of as the failure itself.
        for _ in range(walks):
            _take_walk(steps, is_random=is_long_run)


def _take_walk(steps: int, *, is_random: bool) -> None:
    try:
        run_state_machine_as_test(
            ProjectWalk,
            _min_steps=steps - 1,  # otherwise many walks end after a few steps
            settings=settings(
                max_examples=2,  # the first example is always the simplest
                stateful_step_count=steps,
                deadline=None,
                derandomize=not is_random,
                phases=(Phase.explicit, Phase.generate),
                suppress_health_check=list(HealthCheck),
            ),
        )
    except Flaky as error:
        # Hypothesis repeated a failed walk, and the platform did not fail again at the same step.
        if ProjectWalk.failures:
            raise ProjectWalk.failures[0] from error
        raise
