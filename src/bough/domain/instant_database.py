"""An instant database: a project that nobody owns yet, known by an id that is as good as its password.

Whoever has the id may look at it and claim it. A claim that was begun keeps others away for a while; one that is
done is for ever.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from bough.errors import Conflict, NotFound
from bough.ids import OrganizationId, ProjectId, UserId

UNCLAIMED_ORGANIZATION = OrganizationId("org-unclaimed-databases")  # made by a migration; it has no members
REGION = "aws-us-east-2"
PG_VERSION = 17
CLAIM_DURATION = timedelta(minutes=15)  # from the start of a claim to its end
MAX_REF_LENGTH = 200


class InstantStatus(StrEnum):
    UNCLAIMED = "UNCLAIMED"
    CLAIMING = "CLAIMING"  # somebody who signed in has begun to claim it
    CLAIMED = "CLAIMED"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantDatabase:
    digest: str  # of its id
    sealed_id: str
    project_id: ProjectId
    ref: str  # who sent the person that made it
    created_at: datetime
    updated_at: datetime
    expires_at: datetime  # means nothing after the claim
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
        """A claim that was begun in time may be ended."""
        return self.status(now) is InstantStatus.UNCLAIMED and now >= self.expires_at

    def is_being_claimed_by_another(self, user_id: UserId, now: datetime) -> bool:
        return self.status(now) is InstantStatus.CLAIMING and self.claiming_by != user_id


def begin_claim(database: InstantDatabase, user_id: UserId, now: datetime) -> InstantDatabase:
    """Whoever begins again has the whole time again, but for what a claim takes after the expiration."""
    _check_claimable(database, user_id, now)
    until = min(now, database.expires_at) + CLAIM_DURATION
    return replace(database, claiming_by=user_id, claiming_until=until, updated_at=now)


def cancel_claim(database: InstantDatabase, user_id: UserId, now: datetime) -> InstantDatabase:
    """Nothing changes for somebody who was not claiming it."""
    if database.status(now) is not InstantStatus.CLAIMING or database.claiming_by != user_id:
        return database
    return replace(database, claiming_by=None, claiming_until=None, updated_at=now)


def complete_claim(database: InstantDatabase, user_id: UserId, now: datetime) -> InstantDatabase:
    """Only within the time of a claim that the same person began."""
    _check_claimable(database, user_id, now)
    if database.status(now) is not InstantStatus.CLAIMING:
        raise Conflict("The time for this claim is over, so nothing was changed. Begin it again.")
    return replace(database, claiming_by=None, claiming_until=None, claimed_by=user_id, claimed_at=now, updated_at=now)


def _check_claimable(database: InstantDatabase, user_id: UserId, now: datetime) -> None:
    if database.is_expired(now):
        raise NotFound("This database was not claimed in time, so it is deleted. Create another.")
    if database.status(now) is InstantStatus.CLAIMED:
        raise Conflict("This database was claimed already.")
    if database.is_being_claimed_by_another(user_id, now):
        raise Conflict(
            "Somebody else is claiming this database right now. If they do not finish, try again in 15 minutes."
        )
