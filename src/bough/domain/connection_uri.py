"""The connection URI that users copy."""

from urllib.parse import quote


def build_connection_uri(*, role: str, password: str, host: str, database: str) -> str:
    credentials = f"{_quote(role)}:{_quote(password)}"
    return f"postgresql://{credentials}@{host}/{_quote(database)}?channel_binding=require&sslmode=require"


def _quote(part: str) -> str:
    """Dot are quoted too, because one client splits the URI at its first dot to find the host."""
    return quote(part, safe="").replace(".", "%2E")
