"""An instant database: an unclaimed project, whose id is a secret that grants access.

Anyone who knows the id can view and claim it. A started claim excludes other users for a while; a completed one is
final.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from bough.errors import Conflict, NotFound
from bough.ids import OrganizationId, ProjectId, UserId

UNCLAIMED_ORGANIZATION = OrganizationId("org-unclaimed-databases")  # created by a migration; it has no members
REGION = "aws-us-east-2"
PG_VERSION = 17
CLAIM_DURATION = timedelta(minutes=15)  # how long a started claim is reserved
MAX_REF_LENGTH = 200


class InstantStatus(StrEnum):
    UNCLAIMED = "UNCLAIMED"
    CLAIMING = "CLAIMING"  # a signed-in user has started to claim it
    CLAIMED = "CLAIMED"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantDatabase:
    digest: str  # of its id, which is a secret
    sealed_id: str
    project_id: ProjectId
    ref: str  # the referrer of the creator
    created_at: datetime
    updated_at: datetime
    expires_at: datetime  # ignored after the claim
    claiming_by: UserId | None = None
    claiming_until: datetime | None = None
    claimed_by: UserId | None = None
    claimed_at: datetime | None = None

    def status(self, now: datetime) -> InstantStatus:
        if self.claimed_at is not None:
            return InstantStatus.CLAIMED
        if self.claiming_until is not None and now < self.claiming_until:
            return InstantStatus.CLAIMING
        return InstantStatus.UNCLAIMED

    def is_expired(self, now: datetime) -> bool:
        """A claim that was started in time can be completed."""
        return self.status(now) is InstantStatus.UNCLAIMED and now >= self.expires_at

    def is_being_claimed_by_another(self, user_id: UserId, now: datetime) -> bool:
        return self.status(now) is InstantStatus.CLAIMING and self.claiming_by != user_id


def begin_claim(database: InstantDatabase, user_id: UserId, now: datetime) -> InstantDatabase:
    """Starting again renews the reservation, at most until `CLAIM_DURATION` after the expiration."""
    _check_claimable(database, user_id, now)
    until = min(now, database.expires_at) + CLAIM_DURATION
    return replace(database, claiming_by=user_id, claiming_until=until, updated_at=now)


def cancel_claim(database: InstantDatabase, user_id: UserId, now: datetime) -> InstantDatabase:
    """Has no effect for a user who has not started a claim."""
    if database.status(now) is not InstantStatus.CLAIMING or database.claiming_by != user_id:
        return database
    return replace(database, claiming_by=None, claiming_until=None, updated_at=now)


def complete_claim(database: InstantDatabase, user_id: UserId, now: datetime) -> InstantDatabase:
    """Require a claim by the same user that has not expired."""
    _check_claimable(database, user_id, now)
    if database.status(now) is not InstantStatus.CLAIMING:
        raise Conflict("This claim has expired, and nothing was changed. Start it again.")
    return replace(database, claiming_by=None, claiming_until=None, claimed_by=user_id, claimed_at=now, updated_at=now)


def _check_claimable(database: InstantDatabase, user_id: UserId, now: datetime) -> None:
    if database.is_expired(now):
        raise NotFound("This database was not claimed in time and is deleted. Create another one.")
    if database.status(now) is InstantStatus.CLAIMED:
        raise Conflict("This database is already claimed.")
    if database.is_being_claimed_by_another(user_id, now):
        raise Conflict(
            "Another user is claiming this database. If they do not complete the claim, try again in 15 minutes."
        )
