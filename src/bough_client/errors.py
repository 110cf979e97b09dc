"""What can go wrong when a platform is asked: one error, with a sentence that may be shown."""

MAX_MESSAGE_LENGTH = 500  # characters of what a server says


class ClientError(Exception):
    """The sentence is `message`; the rest is there when the platform itself said it."""

    def __init__(
        self, message: str, *, hint: str | None = None, status: int | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.status = status  # None: there was no answer, or none of a platform
        self.retry_after = retry_after  # seconds


def sanitize(text: str) -> str:
    """One line that no terminal takes for a command; a server may be anybody's."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[:MAX_MESSAGE_LENGTH]}…"
