"""Asking the API of a running platform, with the operator's key."""

import http.client
import json
from typing import Any
from urllib.parse import urlencode

from bough.cli.admin.addresses import Addresses
from bough.errors import NotFound, PreconditionFailed, Unavailable

TIMEOUT = 10.0  # seconds


def ask(addresses: Addresses, key: str, path: str, **query: str | int) -> dict[str, Any]:
    """The answer to a GET; what the API refuses is raised with its own sentence."""
    connection = http.client.HTTPConnection(addresses.host, addresses.api_port, timeout=TIMEOUT)
    target = f"/api/v2{path}?{urlencode(query)}" if query else f"/api/v2{path}"
    try:
        connection.request("GET", target, headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Unavailable(f"The platform at {addresses.root} does not answer: {error}.") from None
    finally:
        connection.close()
    if answer.status == http.HTTPStatus.OK and isinstance(body, dict):
        return body
    sentence = body.get("message", "") if isinstance(body, dict) else ""
    refusal = NotFound if answer.status == http.HTTPStatus.NOT_FOUND else PreconditionFailed
    raise refusal(sentence or f"The platform answers with status {answer.status}.")
