"""Request bodies and responses of the instant API."""

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
    # Optional when parsing, because a missing referrer has its own error message.
    model_config = ConfigDict(title="DatabaseCreate", json_schema_extra={"required": ["ref"]})

    ref: Annotated[StrictStr | None, WithJsonSchema(_REFERRER)] = None


class InstantDatabaseView(BaseModel):
    model_config = ConfigDict(title="DatabaseView")

    id: str = Field(
        description="UUID v7, or the UUID in the request. It is a secret: anyone who knows it can claim the database."
    )
    status: InstantStatus
    neon_project_id: str = Field(description="The project of the database.")
    connection_string: str | None = Field(
        description="Pooled Postgres URL. Remove `-pooler` from the host for a direct connection. Null if the "
        "database is claimed or its password was changed with SQL."
    )
    claim_url: str = Field(description="The page on which a user can claim the database.")
    expires_at: datetime = Field(
        description="When the database is deleted if it is not claimed. Has no effect after a claim."
    )
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, details: InstantDatabaseDetails) -> "InstantDatabaseView":
        database = details.database
        return cls(
            id=details.id,
            status=details.status,
            neon_project_id=database.project_id,
            connection_string=details.connection_string,
            claim_url=details.claim_url,
            expires_at=database.expires_at,
            created_at=database.created_at,
            updated_at=database.updated_at,
        )


def parse_settings(body: bytes) -> DatabaseSettings:
    return _parse(DatabaseSettings, body)


def parse_create(body: bytes) -> InstantDatabaseCreate:
    return _parse(InstantDatabaseCreate, body)


def check_referrer(referrer: str | None) -> str:
    """Return the referrer if it is valid."""
    if referrer is None or not referrer.strip():
        raise MissingReferrer
    if len(referrer) > MAX_REF_LENGTH or not referrer.isprintable():
        raise Invalid(f"The referrer must have at most {MAX_REF_LENGTH} printable characters.")
    return referrer


def _parse(kind: type[T], body: bytes) -> T:
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise InvalidInstantRequest from error
