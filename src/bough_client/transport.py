"""One question to a platform and its answer, a JSON object; whatever else comes is a `ClientError`.

The other side may be down, slow, somebody else's or broken: an answer has an end in time and in size.
"""

import json
import time
from typing import Any
from urllib.parse import urlsplit

import httpx2

from bough_client.errors import ClientError, shown

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 120.0  # from the question to the last byte
BYTES_AT_MOST = 1 << 20
_HERE = {"all://localhost": None, "all://127.0.0.1": None, "all://[::1]": None}  # no proxy is the way to oneself


def is_address(base_url: str) -> bool:
    """Whether it can be asked and shown: a password in it could be neither kept nor hidden."""
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        return False
    plain = base_url.isascii() and base_url.isprintable() and not set(base_url) & set(" @?#\\")
    return plain and parts.scheme in {"http", "https"} and bool(parts.hostname)


def ask(base_url: str, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    if not is_address(base_url):
        raise ClientError("That is no address of a platform; write it like http://localhost:8432.")
    status, headers, content = _exchange(base_url, method, path, body)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and 200 <= status < 300:
        return found
    if isinstance(found, dict) and status >= 400 and isinstance(found.get("message"), str):
        raise _refusal(status, headers, found)
    raise ClientError(f"The answer of {base_url} (status {status}) is not one of a Bough platform.")


def _exchange(base_url: str, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, httpx2.Headers, bytes]:
    deadline = time.monotonic() + ANSWER_SECONDS
    timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    has_certificate = base_url.startswith("https:")  # reading all authorities takes longer than most answers
    try:
        with (
            httpx2.Client(timeout=timeout, mounts=_HERE, verify=has_certificate) as client,
            client.stream(method, base_url.rstrip("/") + path, json=body) as answer,
        ):
            return answer.status_code, answer.headers, _content(answer, base_url, deadline)
    except httpx2.TimeoutException:
        raise _too_slow(base_url) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise ClientError(f"{base_url} cannot be reached: {shown(str(error)) or type(error).__name__}.") from None


def _content(answer: httpx2.Response, base_url: str, deadline: float) -> bytes:
    content = bytearray()
    for part in answer.iter_bytes():
        content += part
        if len(content) > BYTES_AT_MOST:
            raise ClientError(f"The answer of {base_url} does not end.")
        if time.monotonic() > deadline:
            raise _too_slow(base_url)
    return bytes(content)


def _too_slow(base_url: str) -> ClientError:
    return ClientError(f"{base_url} does not answer in time.")


def _refusal(status: int, headers: httpx2.Headers, found: dict[str, Any]) -> ClientError:
    hint = found.get("hint")
    after = headers.get("Retry-After", "")
    return ClientError(
        shown(found["message"]),
        hint=shown(hint) if isinstance(hint, str) else None,
        status=status,
        retry_after=int(after) if after.isascii() and after.isdigit() and len(after) < 7 else None,
    )
