"""Requests to the API of a running platform.

The operator's key is sent only to the listening socket that the platform's supervisor holds: another program may
have bound the port after the platform was killed.
"""

import http.client
import json
from typing import Any
from urllib.parse import urlencode

from bough.cli import socket_table
from bough.errors import NotFound, PreconditionFailed, Unavailable
from bough.supervisor.addresses import ApiAddress

TIMEOUT = 10.0  # seconds
_SUCCESS = (http.HTTPStatus.OK, http.HTTPStatus.CREATED)


def get(address: ApiAddress, key: str, path: str, **query: str | int) -> dict[str, Any]:
    """Return the response to a GET request; raise the API's error message when it fails."""
    return _request(address, key, "GET", f"{path}?{urlencode(query)}" if query else path)


def post(address: ApiAddress, key: str, path: str, **body: Any) -> dict[str, Any]:
    """Return the response to a POST request."""
    return _request(address, key, "POST", path, json.dumps(body))


def fetch_health(address: ApiAddress, timeout: float = 2.0) -> dict[str, Any] | None:
    """Return the response of `/healthz`, which needs no key; None when there is none."""
    connection = http.client.HTTPConnection(address.host, address.api_port, timeout=timeout)
    try:
        connection.request("GET", "/healthz")
        health = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return health if isinstance(health, dict) else None


def _request(address: ApiAddress, key: str, method: str, path: str, body: str | None = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection(address.host, address.api_port, timeout=TIMEOUT)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        connection.connect()
        # Check after connecting: a socket that listened before and still listens has taken this connection.
        _check_listener(address)
        connection.request(method, f"/api/v2{path}", body, headers)
        response = connection.getresponse()
        content = json.loads(response.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Unavailable(f"The platform at {address.base_url} does not respond: {error}.") from None
    finally:
        connection.close()
    if response.status in _SUCCESS and isinstance(content, dict):
        return content
    message = content.get("message", "") if isinstance(content, dict) else ""
    error_class = NotFound if response.status == http.HTTPStatus.NOT_FOUND else PreconditionFailed
    raise error_class(message or f"The platform responded with status {response.status}.")


def _check_listener(address: ApiAddress) -> None:
    if not address.inodes:
        raise PreconditionFailed("The platform still runs an earlier version; upgrade it with `bough restart`.")
    if not socket_table.is_listening(address.api_port, address.inodes):
        raise Unavailable(
            f"Another program listens at {address.base_url}, so the operator's key was not sent. "
            "Stop that program, then start Bough again."
        )
