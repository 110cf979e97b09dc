"""Names that lead to an address, on machines that do not know them."""

import socket
from typing import Any
from urllib.parse import urlsplit


def override_host(uri: str, address: str) -> None:
    """From here on this process finds the URI's host at the address."""
    host = urlsplit(uri).hostname
    asked = socket.getaddrinfo

    def answer(name: Any, *more: Any, **how: Any) -> Any:
        return asked(address if name == host else name, *more, **how)

    socket.getaddrinfo = answer  # type: ignore[assignment]
