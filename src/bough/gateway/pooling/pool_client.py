"""The interface of a client that its server connection uses."""

from collections.abc import Mapping
from typing import Protocol

from bough.gateway.pooling.reported_parameters import ReportedParameters
from bough.gateway.pooling.requests import RequestStream
from bough.gateway.pooling.statements import UnnamedStatement
from bough.gateway.pooling.translation import MessageTranslator


class PoolClient(Protocol):
    application_name: bytes
    session_settings: Mapping[bytes, bytes]  # the settings that its session has changed
    reported_parameters: ReportedParameters  # as the client was sent them
    requests: RequestStream
    unnamed_statement: UnnamedStatement
    pending_input: bytes  # received without a server connection, or deferred until a query of ours is answered

    @property
    def translator(self) -> MessageTranslator: ...

    @property
    def has_finished_sending(self) -> bool:
        """The client has closed its sending side."""

    def write(self, data: memoryview | bytes) -> bool:
        """Send the data; return whether the client took all of it and can take more."""

    def add_hint(self, error: bytes) -> bytes | None:
        """Return the error with the hint for a branch over its storage limit; None: unchanged."""

    def on_server_ready(self) -> None:
        """The server connection takes the client's messages from now on."""

    def pause_reading(self) -> None:
        """The server connection takes no more for now."""

    def resume_reading(self) -> None:
        """The server connection takes more again."""

    def set_session_settings(self, settings: Mapping[bytes, bytes]) -> None:
        """Record the settings that the session has changed."""

    def detach(self) -> None: ...

    @property
    def has_replay(self) -> bool:
        """Whether the messages sent to the server connection can be sent again."""

    def can_replay(self) -> bool:
        """Whether the first messages are one transaction, which Postgres rolls back if it ends without a reply."""

    def replay(self) -> None:
        """Send the messages again on another server connection: Postgres has run none of them."""

    def disconnect(self, error: bytes) -> None: ...
