"""What callers send, and what they are shown."""

from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, ValidationError, WithJsonSchema

from bough.control.instant.databases import InstantDatabaseDetails
from bough.domain.instant_database import MAX_REF_LENGTH, InstantStatus
from bough.errors import Invalid
from bough.instant.errors import InvalidInstantRequest, MissingReferrer

T = TypeVar("T", bound=BaseModel)
_REFERRER = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_REF_LENGTH,
    "description": "Referrer identifier, for tracking.",
}


class DatabaseSettings(BaseModel):
    model_config = ConfigDict(frozen=True)

    enable_logical_replication: StrictBool = Field(False, description="Enables logical replication.")


class InstantDatabaseCreate(DatabaseSettings):
    # Read without a referrer all the same: the requirement has words of its own for that.
    model_config = ConfigDict(title="DatabaseCreate", json_schema_extra={"required": ["ref"]})

    ref: Annotated[StrictStr | None, WithJsonSchema(_REFERRER)] = None


class DatabaseView(BaseModel):
    id: str = Field(description="UUID v7, or the UUID that the caller chose. Whoever knows it may claim the database.")
    status: InstantStatus
    neon_project_id: str = Field(description="The project behind it.")
    connection_string: str | None = Field(
        description="Postgres URL, pooled; without `-pooler` in the host it is direct. Null once the database is "
        "claimed, and when its password was changed with SQL."
    )
    claim_url: str = Field(description="Where a person claims it.")
    expires_at: datetime = Field(description="When it is deleted if nobody claims it; of no effect afterwards.")
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, shown: InstantDatabaseDetails) -> "DatabaseView":
        database = shown.database
        return cls(
            id=shown.id,
            status=shown.status,
            neon_project_id=database.project_id,
            connection_string=shown.connection_string,
            claim_url=shown.claim_url,
            expires_at=database.expires_at,
            created_at=database.created_at,
            updated_at=database.updated_at,
        )


def parse_settings(body: bytes) -> DatabaseSettings:
    return _parsed(DatabaseSettings, body)


def parse_create(body: bytes) -> InstantDatabaseCreate:
    return _parsed(InstantDatabaseCreate, body)


def check_referrer(referrer: str | None) -> str:
    """One that may be written down."""
    if referrer is None or not referrer.strip():
        raise MissingReferrer
    if len(referrer) > MAX_REF_LENGTH or not referrer.isprintable():
        raise Invalid(f"The referrer takes up to {MAX_REF_LENGTH} printable characters.")
    return referrer


def _parsed(kind: type[T], body: bytes) -> T:
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise InvalidInstantRequest from error
