"""How often somebody may try to get in. A wrong guess costs a token; a right one gives its own back."""

import ipaddress

from bough.errors import RateLimitExceeded
from bough.token_buckets import TokenBuckets

_MINUTE, _HOUR = 60.0, 3600.0


class AttemptLimits:
    def __init__(self) -> None:
        self._buckets = TokenBuckets()

    def take_sign_in(self, address: str, email: str) -> None:
        """By where it comes from, by whom it is for, and by both."""
        place = network_of(address)
        self._take(("sign in from", place), 30, 6 / _MINUTE)
        self._take(("sign in as", email, place), 10, 1 / _MINUTE)
        self._take(("sign in as", email), 60, 1 / _MINUTE)

    def refund_sign_in(self, address: str, email: str) -> None:
        """What it took is given back; of its own account and place, all that was taken before, too."""
        place = network_of(address)
        self._buckets.return_token(("sign in from", place))
        self._buckets.return_token(("sign in as", email))
        self._buckets.reset(("sign in as", email, place))

    def take_mail_request(self, address: str, email: str) -> None:
        """Whatever ends in a mail: to sign up, to reset a password."""
        self._take(("mail from", network_of(address)), 20, 20 / _HOUR)
        self._take(("mail to", email), 5, 5 / _HOUR)

    def take_link_visit(self, address: str) -> None:
        self._take(("link from", network_of(address)), 60, 1.0)

    def _take(self, name: tuple[str, ...], size: float, per_second: float) -> None:
        if wait := self._buckets.take(name, size, per_second):
            raise RateLimitExceeded(f"Too many attempts. Try again in {_in_words(wait)}.", wait)


def network_of(address: str) -> str:
    """One line of the internet has a whole network of addresses in version 6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address


def _in_words(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds > 1 else "a second"
