"""Request bodies to create, change and restore branches."""

from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, Field

from bough.api.schemas import Body, Flag, IdText, Name
from bough.api.v2.endpoint_bodies import NewEndpointOptions
from bough.control.branches import points
from bough.control.branches.plan import BranchChange, RequestedBranch
from bough.control.restores.restores import RequestedRestore
from bough.domain.endpoint import EndpointType
from bough.ids import BranchId


def _check_is_iso_format(value: Any) -> Any:
    """Reject numbers, which would be parsed as seconds since 1970."""
    if isinstance(value, int | float) or (isinstance(value, str) and "T" not in value.upper()):
        raise ValueError("write the timestamp with a time zone, for example 2026-01-31T12:00:00Z")
    return value


Timestamp = Annotated[AwareDatetime, BeforeValidator(_check_is_iso_format)]


class NewBranchBody(Body):
    parent_id: IdText | None = None
    name: Name | None = None
    parent_lsn: str | None = None
    parent_timestamp: Timestamp | None = None
    protected: Flag = False
    archived: Flag = False
    init_source: Annotated[str, Field(max_length=64)] | None = None
    expires_at: Timestamp | None = None


class BranchCreate(Body):
    endpoints: Annotated[list[NewEndpointOptions], Field(max_length=100)] = Field(default_factory=list)
    branch: NewBranchBody = NewBranchBody()
    annotation_value: dict[str, str] = Field(default_factory=dict)

    def to_requested_branch(self) -> RequestedBranch:
        body = self.branch
        point = points.parse_point(
            body.parent_lsn, body.parent_timestamp, lsn_name="parent_lsn", at_name="parent_timestamp"
        )
        return RequestedBranch(
            parent_id=BranchId(body.parent_id) if body.parent_id else None,
            name=body.name,
            is_protected=body.protected,
            expires_at=body.expires_at,
            init_source=body.init_source,
            point=point,
            is_archived=body.archived,
            annotations=self.annotation_value,
            endpoints=tuple((EndpointType(each.type), each.to_endpoint_request()) for each in self.endpoints),
        )


class ChangedBranchBody(Body):
    name: Name | None = None
    protected: Flag | None = None
    expires_at: Timestamp | None = None


class BranchUpdate(Body):
    branch: ChangedBranchBody

    def to_branch_change(self) -> BranchChange:
        body = self.branch
        return BranchChange(
            name=body.name,
            is_protected=body.protected,
            sets_expiration="expires_at" in body.model_fields_set,
            expires_at=body.expires_at,
        )


class BranchRestore(Body):
    source_branch_id: IdText
    source_lsn: str | None = None
    source_timestamp: Timestamp | None = None
    preserve_under_name: Name | None = None

    def to_restore_request(self) -> RequestedRestore:
        point = points.parse_point(
            self.source_lsn, self.source_timestamp, lsn_name="source_lsn", at_name="source_timestamp"
        )
        return RequestedRestore(
            source_id=BranchId(self.source_branch_id), point=point, preserve_under_name=self.preserve_under_name
        )
