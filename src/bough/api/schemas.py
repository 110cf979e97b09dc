"""Base classes and field types of request bodies and responses."""

from typing import Annotated, Any

from fastapi import HTTPException, Path, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, model_validator

from bough import ids

INT64_MAX = 2**63 - 1


def check_text(text: str) -> str:
    """Reject text that Postgres cannot store."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("text must not contain NUL characters or unpaired surrogates")
    return text


def _check_all_text(value: Any) -> None:
    """Avoid recursion, because the client decides how deep a body is nested."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str):
            check_text(each)
        elif isinstance(each, dict):
            pending += (*each.keys(), *each.values())
        elif isinstance(each, list):
            pending += each


def _check_not_empty(name: str) -> str:
    """Respond with 404 to a path without a name."""
    if not name:
        raise HTTPException(404)
    return name


Text = Annotated[str, AfterValidator(check_text)]
PathText = Annotated[Text, AfterValidator(_check_not_empty)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
IdText = Annotated[str, Field(pattern=ids.PATTERN)]
BranchIdPath = Annotated[str, Path(pattern=ids.PATTERN, alias="branch_id")]
Count = Annotated[StrictInt, Field(ge=0, le=INT64_MAX)]
Flag = StrictBool
ComputeUnits = Annotated[float, Field(ge=0.25, le=1024, allow_inf_nan=False, strict=True)]


class Body(BaseModel):
    """A request body or a part of one. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_body_text(cls, value: Any) -> Any:
        _check_all_text(value)
        return value

    def dump_provided(self) -> dict[str, Any]:
        """Return the fields that the client sent, as plain values."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


class View(BaseModel):
    """A response or a part of one. Fields without a value are omitted, never null."""

    model_config = ConfigDict(frozen=True)


def to_response(view: View, status: int = 200) -> Response:
    """Serialize directly, because the view has been validated already."""
    return Response(view.model_dump_json(exclude_none=True), status_code=status, media_type="application/json")
