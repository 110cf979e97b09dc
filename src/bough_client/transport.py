"""Sends one request to a platform and returns its response, a JSON object; anything else raises `ClientError`.

The server may be down, slow, broken or not a platform, so a response is limited in time and size.
"""

import json
import time
from typing import Any
from urllib.parse import urlsplit

import httpx2

from bough_client.errors import ClientError, sanitize

CONNECT_TIMEOUT = 10.0
RESPONSE_TIMEOUT = 120.0  # from the request to the last byte
MAX_RESPONSE_BYTES = 1 << 20
_UNPROXIED = {"all://localhost": None, "all://127.0.0.1": None, "all://[::1]": None}  # called without a proxy


def is_http_url(base_url: str) -> bool:
    """Whether the URL can be called and shown; a URL that contains a password is rejected."""
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        return False
    plain = base_url.isascii() and base_url.isprintable() and not set(base_url) & set(" @?#\\")
    return plain and parts.scheme in {"http", "https"} and bool(parts.hostname)


def request(base_url: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    if not is_http_url(base_url):
        raise ClientError("This is not the URL of a platform; write it like http://localhost:8432.")
    status, headers, content = _exchange(base_url, method, path, body)
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict) and 200 <= status < 300:
        return parsed
    if isinstance(parsed, dict) and status >= 400 and isinstance(parsed.get("message"), str):
        raise _make_error(status, headers, parsed)
    raise ClientError(f"The response of {base_url} (status {status}) is not from a Bough platform.")


def _exchange(base_url: str, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, httpx2.Headers, bytes]:
    deadline = time.monotonic() + RESPONSE_TIMEOUT
    timeout = httpx2.Timeout(RESPONSE_TIMEOUT, connect=CONNECT_TIMEOUT)
    needs_certificates = base_url.startswith("https:")  # loading the CA certificates takes longer than most requests
    try:
        with (
            httpx2.Client(timeout=timeout, mounts=_UNPROXIED, verify=needs_certificates) as client,
            client.stream(method, base_url.rstrip("/") + path, json=body) as response,
        ):
            return response.status_code, response.headers, _read_content(response, base_url, deadline)
    except httpx2.TimeoutException:
        raise _make_timeout_error(base_url) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ClientError(f"{base_url} cannot be reached: {sanitize(str(error)) or type(error).__name__}.") from None


def _read_content(response: httpx2.Response, base_url: str, deadline: float) -> bytes:
    content = bytearray()
    for part in response.iter_bytes():
        content += part
        if len(content) > MAX_RESPONSE_BYTES:
            raise ClientError(f"The response of {base_url} is too large.")
        if time.monotonic() > deadline:
            raise _make_timeout_error(base_url)
    return bytes(content)


def _make_timeout_error(base_url: str) -> ClientError:
    return ClientError(f"{base_url} did not respond in time.")


def _make_error(status: int, headers: httpx2.Headers, content: dict[str, Any]) -> ClientError:
    hint = content.get("hint")
    retry_after = headers.get("Retry-After", "")
    return ClientError(
        sanitize(content["message"]),
        hint=sanitize(hint) if isinstance(hint, str) else None,
        status=status,
        retry_after=int(retry_after)
        if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 7
        else None,
    )
