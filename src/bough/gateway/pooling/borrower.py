"""The client that has a member, as the member sees it."""

from collections.abc import Mapping
from typing import Protocol

from bough.gateway.pooling.reported import Reported
from bough.gateway.pooling.requests import Requests
from bough.gateway.pooling.translation import Translation
from bough.gateway.pooling.unnamed import Unnamed


class Borrower(Protocol):
    name: bytes  # application_name
    settings: Mapping[bytes, bytes]  # what its session has set
    reported: Reported  # as it was told
    requests: Requests
    unnamed: Unnamed
    held: bytes  # what it said while it had no member, or that waits for an answer of ours

    @property
    def translation(self) -> Translation: ...

    @property
    def is_done(self) -> bool:
        """It will say nothing more."""

    def hear(self, data: memoryview | bytes) -> bool:
        """Whether it took all of it and may be told more."""

    def hinted(self, error: bytes) -> bytes | None:
        """The error with what helps a client of a database that is full; None: as it is."""

    def go_on(self) -> None:
        """The member takes what you have to say."""

    def go_slow(self) -> None:
        """It takes no more for now."""

    def go_fast(self) -> None:
        """It does again."""

    def keep(self, settings: Mapping[bytes, bytes]) -> None:
        """What your session has set."""

    def let_go(self) -> None: ...

    @property
    def can_repeat(self) -> bool:
        """What you said to the member is still known."""

    def may_repeat(self) -> bool:
        """Whether what you said first is undone as a whole when Postgres ends before it answers."""

    def again(self) -> None:
        """The member is gone, and nothing of what you said was read."""

    def lose(self, words: bytes) -> None: ...
