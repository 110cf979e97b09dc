"""Asking a running platform how it is."""

import http.client
import json
from typing import Any

from bough.supervisor.addresses import ApiAddress


def fetch_health(address: ApiAddress, timeout: float = 2.0) -> dict[str, Any] | None:
    """The answer of `/healthz`, or None when nobody answers."""
    connection = http.client.HTTPConnection(address.host, address.api_port, timeout=timeout)
    try:
        connection.request("GET", "/healthz")
        answer = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else None
