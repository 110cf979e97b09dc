"""Tests of the validator itself: it must be able to fail."""

import copy
import json
from typing import Any

import httpx2
import pytest

from support import requirements
from support.contract import Contract, ContractOperation, ContractResponse, load_operation_list
from support.contract_checks import ContractChecker
from support.contract_schemas import SchemaValidator

OPERATION: dict[str, Any] = {
    "id": "6f1a2b3c-0000-4000-8000-000000000001",
    "project_id": "cool-breeze-12345678",
    "action": "create_timeline",
    "status": "running",
    "failures_count": 0,
    "created_at": "2026-01-02T03:04:05.678Z",
    "updated_at": "2026-01-02T03:04:05+00:00",
    "total_duration_ms": 12,
}
PATH = "/api/v2/projects/cool-breeze-12345678/operations/6f1a2b3c-0000-4000-8000-000000000001"


def _make_response(
    value: Any, *, status: int = 200, path: str = PATH, content_type: str = "application/json"
) -> ContractResponse:
    return ContractResponse("GET", path, status, content_type, json.dumps(value).encode())


def test_a_good_answer_passes(contract: Contract) -> None:
    assert contract.find_violations(_make_response({"operation": OPERATION})) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", 7),
        ("id", "not-a-uuid"),
        ("id", None),
        ("project_id", "Has Spaces"),
        ("action", "make_coffee"),
        ("status", "done"),
        ("failures_count", "0"),
        ("failures_count", 0.0),
        ("failures_count", True),
        ("failures_count", 2**31),
        ("created_at", "yesterday"),
        ("created_at", "2026-01-02T03:04:05"),
        ("created_at", "2026-13-02T03:04:05Z"),
        ("error", None),
        ("eror", "a field that no shape knows"),
    ],
)
def test_a_wrong_field_fails(contract: Contract, field: str, value: Any) -> None:
    violations = contract.find_violations(_make_response({"operation": {**OPERATION, field: value}}))
    assert violations
    assert field in violations[0]


@pytest.mark.parametrize("field", sorted(OPERATION))
def test_a_missing_field_fails(contract: Contract, field: str) -> None:
    without = {name: value for name, value in OPERATION.items() if name != field}
    assert field in contract.find_violations(_make_response({"operation": without}))[0]


def test_null_passes_only_where_the_shape_says_so(contract: Contract) -> None:
    creator = {"id": OPERATION["id"], "name": "", "image": ""}
    key = {
        "id": 1,
        "name": "k",
        "created_at": OPERATION["created_at"],
        "created_by": creator,
        "last_used_at": None,
        "last_used_from_addr": "",
    }
    assert contract.find_violations(_make_response([key], path="/api/v2/api_keys")) == []
    assert contract.find_violations(_make_response([{**key, "name": None}], path="/api/v2/api_keys"))


@pytest.mark.parametrize(
    "response",
    [
        _make_response({"operation": OPERATION}, status=201),
        _make_response({"operation": OPERATION}, content_type="text/html"),
        _make_response({"operation": OPERATION}, path="/api/v2/nowhere"),
        _make_response({"code": ""}, status=404),
        _make_response({"code": 7, "message": "no"}, status=500),
        _make_response({"detail": "Not Found"}, status=404, path="/api/v2/nowhere"),
        ContractResponse("GET", PATH, 200, "application/json", b""),
        ContractResponse("GET", PATH, 200, "application/json", b'{"operation": NaN}'),
    ],
)
def test_an_answer_of_another_kind_fails(contract: Contract, response: ContractResponse) -> None:
    assert contract.find_violations(response)


def test_a_path_without_parameters_is_not_swallowed_by_one_with_them(contract: Contract) -> None:
    assert contract.match_operation("GET", "/api/v2/projects/shared") == ContractOperation("GET", "/projects/shared")
    assert contract.match_operation("GET", "/api/v2/projects/mine") == ContractOperation(
        "GET", "/projects/{project_id}"
    )
    assert contract.match_operation("DELETE", "/api/v2/projects") is None


def test_every_shape_of_the_contract_can_be_read(contract: Contract) -> None:
    document = json.loads((requirements.require_contract() / "management-v2.shapes.json").read_text())
    shapes = SchemaValidator(document)
    for schema in document["components"]["schemas"].values():
        assert shapes.to_json_schema(copy.deepcopy(schema))
    assert contract.operations == load_operation_list(requirements.require_contract())


async def test_the_hook_fails_the_test_at_the_faulty_answer(contract: Contract) -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, json={"operation": {}}))
    hooks: Any = {"response": [ContractChecker(contract).check_response]}
    async with httpx2.AsyncClient(transport=transport, base_url="http://bough", event_hooks=hooks) as client:
        with pytest.raises(AssertionError, match="is a required property"):
            await client.get(PATH)
