"""Violations of the protocol."""

PROTOCOL_VIOLATION = "08P01"
FEATURE_NOT_SUPPORTED = "0A000"
INVALID_AUTHORIZATION = "28000"


class ProtocolError(Exception):
    """A message that may be shown to clients, with the SQLSTATE that Postgres uses for it."""

    def __init__(self, message: str, sqlstate: str = PROTOCOL_VIOLATION) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
