"""Bytes that are not the protocol."""

PROTOCOL_VIOLATION = "08P01"
FEATURE_NOT_SUPPORTED = "0A000"
INVALID_AUTHORIZATION = "28000"


class ProtocolError(Exception):
    """Says what was wrong with them, in words that a client may read, and the SQLSTATE Postgres has for it."""

    def __init__(self, message: str, code: str = PROTOCOL_VIOLATION) -> None:
        super().__init__(message)
        self.sqlstate = code
