"""What bodies and views are made of."""

from typing import Annotated, Any

from fastapi import HTTPException, Path, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, model_validator

from bough import ids
from bough.api.paging import encode_cursor
from bough.store.paging import Page as StorePage

INT64_MAX = 2**63 - 1


def check_text(text: str) -> str:
    """Text that every database can hold."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("text may not hold NUL or half a surrogate pair")
    return text


def _check_clean(value: Any) -> None:
    """Without recursion: how deep a body is nested is the caller's choice."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            check_text(each)
        elif isinstance(each, dict):
            waiting += (*each.keys(), *each.values())
        elif isinstance(each, list):
            waiting += each


def _check_not_empty(name: str) -> str:
    """A path that ends where a name should stand is no path of ours."""
    if not name:
        raise HTTPException(404)
    return name


Text = Annotated[str, AfterValidator(check_text)]
PathText = Annotated[Text, AfterValidator(_check_not_empty)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
IdText = Annotated[str, Field(pattern=ids.PATTERN)]
BranchIdPath = Annotated[str, Path(pattern=ids.PATTERN, alias="branch_id")]  # in a path
Count = Annotated[StrictInt, Field(ge=0, le=INT64_MAX)]
Flag = StrictBool
ComputeUnits = Annotated[float, Field(ge=0.25, le=1024, allow_inf_nan=False, strict=True)]


class Body(BaseModel):
    """A request body, or a part of one. Fields that we do not know are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _text_is_clean(cls, value: Any) -> Any:
        _check_clean(value)
        return value

    def dump_provided(self) -> dict[str, Any]:
        """Only what the caller said, as plain values."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


class View(BaseModel):
    """What is shown. A field without a value is left out, never null."""

    model_config = ConfigDict(frozen=True)


class Pagination(View):
    cursor: str


def to_pagination(page: StorePage[Any]) -> Pagination | None:
    return None if page.next is None else Pagination(cursor=encode_cursor(page.next))


def to_response(view: View, status: int = 200) -> Response:
    """Straight to bytes: the view is already checked."""
    return Response(view.model_dump_json(exclude_none=True), status_code=status, media_type="application/json")
