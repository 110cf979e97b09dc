"""Branches: what callers may say of one that is new, or that is changed."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, Field

from bough.api.shapes import Body, Flag, IdText, Name
from bough.api.v2.endpoint_bodies import NewEndpointOptions
from bough.control.branches import BranchChange, NewBranch
from bough.domain.endpoint import EndpointType
from bough.errors import Invalid
from bough.ids import BranchId


def _written_out(value: Any) -> Any:
    """A bare number would be read as seconds since 1970."""
    if isinstance(value, int | float) or (isinstance(value, str) and "T" not in value.upper()):
        raise ValueError("write the moment as 2026-01-31T12:00:00Z, with its zone")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_written_out)]


class NewBranchBody(Body):
    parent_id: IdText | None = None
    name: Name | None = None
    parent_lsn: str | None = None
    parent_timestamp: datetime | None = None
    protected: Flag = False
    archived: Flag = False
    init_source: Annotated[str, Field(max_length=64)] | None = None
    expires_at: Moment | None = None


class BranchCreate(Body):
    endpoints: Annotated[list[NewEndpointOptions], Field(max_length=100)] = Field(default_factory=list)
    branch: NewBranchBody = NewBranchBody()
    annotation_value: dict[str, str] = Field(default_factory=dict)

    def wish(self) -> NewBranch:
        asked = self.branch
        if asked.parent_lsn is not None or asked.parent_timestamp is not None:
            raise Invalid(
                "A branch cannot begin at a point in history yet: leave parent_lsn and parent_timestamp out, "
                "and it begins with what its parent has now."
            )
        if asked.archived:
            raise Invalid("Branches cannot be archived yet: leave archived out.")
        return NewBranch(
            parent_id=BranchId(asked.parent_id) if asked.parent_id else None,
            name=asked.name,
            is_protected=asked.protected,
            expires_at=asked.expires_at,
            init_source=asked.init_source,
            annotations=self.annotation_value,
            endpoints=tuple((EndpointType(each.type), each.wish()) for each in self.endpoints),
        )


class ChangedBranchBody(Body):
    name: Name | None = None
    protected: Flag | None = None
    expires_at: Moment | None = None


class BranchUpdate(Body):
    branch: ChangedBranchBody

    def change(self) -> BranchChange:
        asked = self.branch
        return BranchChange(
            name=asked.name,
            is_protected=asked.protected,
            sets_expiration="expires_at" in asked.model_fields_set,
            expires_at=asked.expires_at,
        )
