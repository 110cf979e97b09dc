"""The contract: which operations there are, and whether an answer has the shape of its place.

It is read where it lies, beside the project; nothing of it is copied here.
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
_OURS = ("/api/v2/docs", "/api/v2/openapi.json")  # our description of ourselves is not in the contract
_EMPTY = frozenset({204})


class Operation(NamedTuple):
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
        self._errors = {  # those that say more than others
            (Operation(method.upper(), path), int(status)): {"allOf": [self._error, _json_of(response)]}
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            for status, response in operation["responses"].items()
            if status.isdigit() and int(status) >= 400
        }
        self._responses = {
            Operation(method.upper(), path): operation["responses"]
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }
        # A path without parameters stands before one whose parameter would swallow it.
        templates = sorted({path for _, path in self._responses}, key=lambda path: path.count("{"))
        self._templates = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in templates]

    @property
    def operations(self) -> frozenset[Operation]:
        return frozenset(self._responses)

    def match_operation(self, method: str, path: str) -> Operation | None:
        """The operation a request is for; None when the contract has none."""
        inner = path.removeprefix(PREFIX).replace("/set_as_primary", "/set_as_default")  # its older name
        for pattern, template in self._templates:
            if pattern.fullmatch(inner) and Operation(method, template) in self._responses:
                return Operation(method, template)
        return None

    def find_violations(self, answer: ContractResponse) -> list[str]:
        """What is wrong with an answer; nothing when a client of the contract can read it."""
        if not answer.path.startswith(f"{PREFIX}/") or answer.path in _OURS:
            return []
        if answer.path.startswith(f"{PREFIX}/bough/") and answer.status < 400:
            return []  # a path of our own, which the contract does not know
        place = f"{answer.method} {answer.path} → {answer.status}"
        schema = self._schema(answer)
        if schema is None:
            return [f"{place}: the contract has no such success here"]
        if answer.status in _EMPTY:
            return [f"{place}: has a body"] if answer.body else []
        if answer.content_type.split(";")[0] != "application/json":
            return [f"{place}: the content type is {answer.content_type!r}"]
        try:
            value = json.loads(answer.body, parse_constant=_reject_constant)
        except ValueError as error:
            return [f"{place}: not JSON: {error}"]
        return [f"{place}: {fault}" for fault in self._schemas.find_violations(schema, value)]

    def _schema(self, answer: ContractResponse) -> Mapping[str, Any] | None:
        operation = self.match_operation(answer.method, answer.path)
        if answer.status >= 400:
            return self._errors.get((operation, answer.status), self._error) if operation else self._error
        response = self._responses[operation].get(str(answer.status)) if operation else None
        return None if response is None else _json_of(response)


def _json_of(response: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = response.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


@cache
def load_contract() -> Contract | None:
    """The contract beside the project; None on a machine that does not have it."""
    if not CONTRACT.is_dir():
        return None
    return Contract(json.loads((CONTRACT / "management-v2.shapes.json").read_text()))


def load_operation_list(folder: Path) -> frozenset[Operation]:
    """The operations as the list beside the shapes has them."""
    lines = (folder / "management-v2.operations.txt").read_text().splitlines()
    return frozenset(Operation(*line.split()[:2]) for line in lines if line.strip())
