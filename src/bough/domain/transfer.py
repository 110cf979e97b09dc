"""An offer to take over a project, for whoever knows its id; and what a plan must have room for."""

from dataclasses import dataclass
from datetime import datetime

from bough.errors import Invalid
from bough.ids import ProjectId, UserId

USUAL_SECONDS = 86_400
LONGEST_SECONDS = 30 * 86_400
MOST_PROJECTS = 400  # in one call


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRequest:
    digest: str  # of the request's id, which is a secret
    project_id: ProjectId
    created_by: UserId
    created_at: datetime
    expires_at: datetime


def check_seconds(seconds: int) -> None:
    if not 0 < seconds <= LONGEST_SECONDS:
        raise Invalid(f"ttl_seconds is {seconds}: use 1 to {LONGEST_SECONDS}.")
