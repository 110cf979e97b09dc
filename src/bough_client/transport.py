"""One question to a platform and its answer, a JSON object; whatever else comes is a `ClientError`.

The other side may be down, slow, somebody else's or broken: an answer has an end in time and in size.
"""

import json
import time
from typing import Any
from urllib.parse import urlsplit

import httpx2

from bough_client.errors import ClientError, sanitize

CONNECT_TIMEOUT = 10.0
RESPONSE_TIMEOUT = 120.0  # from the question to the last byte
MAX_RESPONSE_BYTES = 1 << 20
_UNPROXIED = {"all://localhost": None, "all://127.0.0.1": None, "all://[::1]": None}  # no proxy is the way to oneself


def is_http_url(base_url: str) -> bool:
    """Whether it can be asked and shown: a password in it could be neither kept nor hidden."""
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        return False
    plain = base_url.isascii() and base_url.isprintable() and not set(base_url) & set(" @?#\\")
    return plain and parts.scheme in {"http", "https"} and bool(parts.hostname)


def request(base_url: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    if not is_http_url(base_url):
        raise ClientError("That is no address of a platform; write it like http://localhost:8432.")
    status, headers, content = _exchange(base_url, method, path, body)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and 200 <= status < 300:
        return found
    if isinstance(found, dict) and status >= 400 and isinstance(found.get("message"), str):
        raise _make_error(status, headers, found)
    raise ClientError(f"The answer of {base_url} (status {status}) is not one of a Bough platform.")


def _exchange(base_url: str, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, httpx2.Headers, bytes]:
    deadline = time.monotonic() + RESPONSE_TIMEOUT
    timeout = httpx2.Timeout(RESPONSE_TIMEOUT, connect=CONNECT_TIMEOUT)
    has_certificate = base_url.startswith("https:")  # reading all authorities takes longer than most answers
    try:
        with (
            httpx2.Client(timeout=timeout, mounts=_UNPROXIED, verify=has_certificate) as client,
            client.stream(method, base_url.rstrip("/") + path, json=body) as answer,
        ):
            return answer.status_code, answer.headers, _read_content(answer, base_url, deadline)
    except httpx2.TimeoutException:
        raise _make_timeout_error(base_url) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ClientError(f"{base_url} cannot be reached: {sanitize(str(error)) or type(error).__name__}.") from None


def _read_content(answer: httpx2.Response, base_url: str, deadline: float) -> bytes:
    content = bytearray()
    for part in answer.iter_bytes():
        content += part
        if len(content) > MAX_RESPONSE_BYTES:
            raise ClientError(f"The answer of {base_url} does not end.")
        if time.monotonic() > deadline:
            raise _make_timeout_error(base_url)
    return bytes(content)


def _make_timeout_error(base_url: str) -> ClientError:
    return ClientError(f"{base_url} does not answer in time.")


def _make_error(status: int, headers: httpx2.Headers, found: dict[str, Any]) -> ClientError:
    hint = found.get("hint")
    after = headers.get("Retry-After", "")
    return ClientError(
        sanitize(found["message"]),
        hint=sanitize(hint) if isinstance(hint, str) else None,
        status=status,
        retry_after=int(after) if after.isascii() and after.isdigit() and len(after) < 7 else None,
    )
