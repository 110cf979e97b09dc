"""Building the string that users copy."""

from urllib.parse import quote


def build_connection_uri(*, role: str, password: str, host: str, database: str) -> str:
    who = f"{_quoted(role)}:{_quoted(password)}"
    return f"postgresql://{who}@{host}/{_quoted(database)}?channel_binding=require&sslmode=require"


def _quoted(part: str) -> str:
    """Dots are quoted too: a client cuts the whole URI at its first dot to find the host."""
    return quote(part, safe="").replace(".", "%2E")
