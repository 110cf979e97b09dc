"""A link that works once: to sign up, to set a password, or for the first sign-in of the operator."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bough.ids import UserId


class LinkPurpose(StrEnum):
    SIGN_UP = "sign_up"  # proves the address and creates an account
    RESET = "reset"  # set a new password
    WELCOME = "welcome"  # the first sign-in of the operator


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTimeLink:
    digest: str  # of the token in the link, which is not stored
    purpose: LinkPurpose
    email: str
    user_id: UserId | None  # None to sign up, or when no account has the address and the link has no effect
    created_at: datetime
    expires_at: datetime
