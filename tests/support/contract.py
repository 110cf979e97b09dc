"""The contract: its operations, and whether a response has the published shape.

It is read from a folder next to the project and not copied.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from support.contract_schemas import SchemaValidator
from support.requirements import CONTRACT

PREFIX = "/api/v2"
_DOCUMENTATION_PATHS = ("/api/v2/docs", "/api/v2/openapi.json")  # our own documentation is not in the contract
_EMPTY = frozenset({204})


class ContractOperation(NamedTuple):
    method: str
    path: str  # with {parameters}, without the prefix


@dataclass(frozen=True, slots=True)
class ContractResponse:
    method: str
    path: str
    status: int
    content_type: str
    body: bytes


class Contract:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._schemas = SchemaValidator(document)
        self._error = _json_of(document["paths"]["/projects"]["get"]["responses"]["default"])
        self._errors = {  # errors with additional fields
            (ContractOperation(method.upper(), path), int(status)): {"allOf": [self._error, _json_of(published)]}
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            for status, published in operation["responses"].items()
            if status.isdigit() and int(status) >= 400
        }
        self._responses = {
            ContractOperation(method.upper(), path): operation["responses"]
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }
        # Paths without parameters come first, because a parameter of another path could match them.
        templates = sorted({path for _, path in self._responses}, key=lambda path: path.count("{"))
        self._templates = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in templates]

    @property
    def operations(self) -> frozenset[ContractOperation]:
        return frozenset(self._responses)

    def match_operation(self, method: str, path: str) -> ContractOperation | None:
        """Return the operation of a request; None if the contract has none."""
        inner = path.removeprefix(PREFIX).replace("/set_as_primary", "/set_as_default")  # its older name
        for pattern, template in self._templates:
            if pattern.fullmatch(inner) and ContractOperation(method, template) in self._responses:
                return ContractOperation(method, template)
        return None

    def find_violations(self, response: ContractResponse) -> list[str]:
        """Return how a response violates the contract; empty if it does not."""
        if not response.path.startswith(f"{PREFIX}/") or response.path in _DOCUMENTATION_PATHS:
            return []
        if response.path.startswith(f"{PREFIX}/bough/") and response.status < 400:
            return []  # an extension, which the contract does not know
        label = f"{response.method} {response.path} → {response.status}"
        schema = self._schema(response)
        if schema is None:
            return [f"{label}: the contract has no such successful response"]
        if response.status in _EMPTY:
            return [f"{label}: has a body"] if response.body else []
        if response.content_type.split(";")[0] != "application/json":
            return [f"{label}: the content type is {response.content_type!r}"]
        try:
            value = json.loads(response.body, parse_constant=_reject_constant)
        except ValueError as error:
            return [f"{label}: not JSON: {error}"]
        return [f"{label}: {violation}" for violation in self._schemas.find_violations(schema, value)]

    def _schema(self, response: ContractResponse) -> Mapping[str, Any] | None:
        operation = self.match_operation(response.method, response.path)
        if response.status >= 400:
            return self._errors.get((operation, response.status), self._error) if operation else self._error
        published = self._responses[operation].get(str(response.status)) if operation else None
        return None if published is None else _json_of(published)


def _json_of(published: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = published.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


@cache
def load_contract() -> Contract | None:
    """Load the contract; None if this machine does not have it."""
    if not CONTRACT.is_dir():
        return None
    return Contract(json.loads((CONTRACT / "management-v2.shapes.json").read_text()))


def load_operation_list(folder: Path) -> frozenset[ContractOperation]:
    """Load the list of operations."""
    lines = (folder / "management-v2.operations.txt").read_text().splitlines()
    return frozenset(ContractOperation(*line.split()[:2]) for line in lines if line.strip())
