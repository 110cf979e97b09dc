"""The client that has a member, as the member sees it."""

from collections.abc import Mapping
from typing import Protocol

from bough.gateway.pooling.reported_parameters import ReportedParameters
from bough.gateway.pooling.requests import RequestStream
from bough.gateway.pooling.translation import MessageTranslator
from bough.gateway.pooling.unnamed import UnnamedStatement


class PoolClient(Protocol):
    application_name: bytes  # application_name
    session_settings: Mapping[bytes, bytes]  # what its session has set
    reported_parameters: ReportedParameters  # as it was told
    requests: RequestStream
    unnamed_statement: UnnamedStatement
    pending_input: bytes  # what it said while it had no member, or that waits for an answer of ours

    @property
    def translation(self) -> MessageTranslator: ...

    @property
    def has_finished_sending(self) -> bool:
        """It will say nothing more."""

    def write(self, data: memoryview | bytes) -> bool:
        """Whether it took all of it and may be told more."""

    def add_hint(self, error: bytes) -> bytes | None:
        """The error with what helps a client of a database that is full; None: as it is."""

    def on_server_ready(self) -> None:
        """The member takes what you have to say."""

    def pause_reading(self) -> None:
        """It takes no more for now."""

    def resume_reading(self) -> None:
        """It does again."""

    def set_session_settings(self, settings: Mapping[bytes, bytes]) -> None:
        """What your session has set."""

    def detach(self) -> None: ...

    @property
    def has_replay(self) -> bool:
        """What you said to the member is still known."""

    def can_replay(self) -> bool:
        """Whether what you said first is undone as a whole when Postgres ends before it answers."""

    def replay(self) -> None:
        """The member is gone, and nothing of what you said was read."""

    def disconnect(self, error: bytes) -> None: ...
