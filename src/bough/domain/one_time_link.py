"""A link that works once: to finish signing up, to set a password, to begin as the operator."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bough.ids import UserId


class LinkPurpose(StrEnum):
    SIGN_UP = "sign_up"  # the address is theirs: make an account for it
    RESET = "reset"  # set a new password
    WELCOME = "welcome"  # the operator's first


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTimeLink:
    digest: str  # of the token in the link, which is not kept
    purpose: LinkPurpose
    email: str
    user_id: UserId | None  # None: to sign up, or nobody has the address and the link does nothing
    created_at: datetime
    expires_at: datetime
