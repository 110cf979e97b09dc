"""Our own OpenAPI document is up to date, valid OpenAPI 3.0, and describes every route."""

import json
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV30SpecValidator

from bough.api import documentation, openapi
from bough.api.app import create_bare_app
from support.routes import list_routes

COMMITTED = Path(__file__).parents[2] / "openapi" / "v2.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(COMMITTED.read_text())
    return loaded


def _operations(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path.removeprefix("/api/v2")): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_it_is_not_stale() -> None:
    assert COMMITTED.read_text() == documentation.render_openapi(create_bare_app()), (
        "regenerate it: .venv/bin/python -m bough.api.openapi"
    )


def test_staleness_is_noticed_by_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "v2.json"
    monkeypatch.setattr(openapi, "COMMITTED", copy)
    assert openapi.main(["--check"]) == 1
    assert openapi.main([]) == 0
    assert openapi.main(["--check"]) == 0
    copy.write_text(copy.read_text().replace("Bough", "Bow"))
    assert openapi.main(["--check"]) == 1


def test_it_is_valid_as_3_0(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.0")
    OpenAPIV30SpecValidator(document).validate()


def test_it_speaks_no_3_1(document: dict[str, Any]) -> None:
    def check(node: Any, place: str) -> None:
        if isinstance(node, dict):
            assert node.get("type") != "null", place
            assert not isinstance(node.get("type"), list), place
            assert "$ref" not in node or len(node) == 1, f"{place}: keywords next to a reference are ignored"
            for name, value in node.items():
                check(value, f"{place}/{name}")
        elif isinstance(node, list):
            for position, value in enumerate(node):
                check(value, f"{place}/{position}")

    check(document, "#")
    text = json.dumps(document)
    assert not [word for word in ('"const"', '"examples"', '"prefixItems"', '"$defs"') if word in text]


def test_it_tells_of_every_route(document: dict[str, Any]) -> None:
    assert set(_operations(document)) == {tuple(operation) for operation in list_routes()}


def test_every_operation_has_a_name_a_sentence_an_error_and_asks_for_a_key(document: dict[str, Any]) -> None:
    operations = _operations(document)
    names = [operation["operationId"] for operation in operations.values()]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and name[0].islower() for name in names)
    for place, operation in operations.items():
        assert operation["description"].endswith("."), place
        assert operation["tags"], place
        assert operation["security"] == [{"BearerAuth": []}], place
        assert "default" in operation["responses"], place
        assert set(operation["responses"]) <= {"200", "201", "202", "204", "406", "default"}, place


def test_names_are_those_that_clients_know(document: dict[str, Any]) -> None:
    names = {operation["operationId"] for operation in _operations(document).values()}
    assert {"listProjects", "createProject", "getProjectOperation", "revokeApiKey", "getActiveRegions"} <= names
