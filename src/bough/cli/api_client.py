"""Asking the API of a running platform, with the operator's key.

The key goes only to the listening socket that the platform's supervisor holds: another program may have taken
the port after the platform was killed.
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
    """The answer to a GET; what the API refuses is raised with its own sentence."""
    return _request(address, key, "GET", f"{path}?{urlencode(query)}" if query else path)


def post(address: ApiAddress, key: str, path: str, **body: Any) -> dict[str, Any]:
    """The answer to a POST."""
    return _request(address, key, "POST", path, json.dumps(body))


def _request(addresses: ApiAddress, key: str, method: str, path: str, body: str | None = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection(addresses.host, addresses.api_port, timeout=TIMEOUT)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        connection.connect()
        # After connecting: a socket that listened before and still does has taken this connection.
        _check_listener(addresses)
        connection.request(method, f"/api/v2{path}", body, headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Unavailable(f"The platform at {addresses.base_url} does not answer: {error}.") from None
    finally:
        connection.close()
    if answer.status in _SUCCESS and isinstance(found, dict):
        return found
    sentence = found.get("message", "") if isinstance(found, dict) else ""
    refusal = NotFound if answer.status == http.HTTPStatus.NOT_FOUND else PreconditionFailed
    raise refusal(sentence or f"The platform answers with status {answer.status}.")


def _check_listener(addresses: ApiAddress) -> None:
    if not addresses.inodes:
        raise PreconditionFailed(
            "The platform still runs as an earlier version; `bough restart` brings it to this one."
        )
    if not socket_table.is_listening(addresses.api_port, addresses.inodes):
        raise Unavailable(
            f"Another program listens at {addresses.base_url}, so the operator's key was not sent. "
            "Stop that program, then start Bough again."
        )
