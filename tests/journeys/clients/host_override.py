"""Overrides the address of a host name that this machine cannot resolve."""

import socket
from typing import Any
from urllib.parse import urlsplit


def override_host(uri: str, address: str) -> None:
    """Resolves the host of the URI to the address in this process."""
    host = urlsplit(uri).hostname
    resolve = socket.getaddrinfo

    def resolve_with_override(name: Any, *arguments: Any, **options: Any) -> Any:
        return resolve(address if name == host else name, *arguments, **options)

    socket.getaddrinfo = resolve_with_override  # type: ignore[assignment]
