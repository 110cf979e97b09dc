"""The error that the client raises."""

MAX_MESSAGE_LENGTH = 500  # characters of a server's message


class ClientError(Exception):
    """`message` can be shown to the user; the other fields are set when the platform responded with an error."""

    def __init__(
        self, message: str, *, hint: str | None = None, status: int | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status  # None: there was no response, or it did not come from a platform
        self.retry_after = retry_after  # seconds


def sanitize(text: str) -> str:
    """Returns one line without control characters, because the server may not be trusted."""
    line = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[:MAX_MESSAGE_LENGTH]}…"
