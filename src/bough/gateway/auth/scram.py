"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677, RFC 5929).

An exchange for an unknown role does the same work with a random verifier, and fails at the end like a wrong
password.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from bough.gateway.wire.protocol_error import FEATURE_NOT_SUPPORTED, INVALID_AUTHORIZATION, ProtocolError

SCRAM_SHA_256 = "SCRAM-SHA-256"
SCRAM_SHA_256_PLUS = "SCRAM-SHA-256-PLUS"
_BINDING_TYPE = "tls-server-end-point"
_NONCE_BYTES = 18
_MAX_ITERATION_COUNT = 2**31 - 1
_PRINTABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")  # printable ASCII except the comma
_ATTRIBUTE = re.compile(r"[A-Za-z]=[^,\0]*")
_VERIFIER = re.compile(r"SCRAM-SHA-256\$([0-9]{1,10}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")


class WrongPassword(Exception):
    """The client's proof is wrong, or the role is unknown."""


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """The form in which Postgres stores a password."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def parse(cls, text: str) -> "ScramVerifier | None":
        """Parse the stored form; None if it is not SCRAM-SHA-256."""
        found = _VERIFIER.fullmatch(text)
        if found is None or not 1 <= int(found[1]) <= _MAX_ITERATION_COUNT:
            return None
        try:
            salt, stored, server = (base64.b64decode(part, validate=True) for part in found.groups()[1:])
        except binascii.Error:
            return None
        if len(stored) != len(server) or len(stored) != hashlib.sha256().digest_size:
            return None
        return cls(int(found[1]), salt, stored, server)

    @classmethod
    def mock(cls, secret: bytes, name: str) -> "ScramVerifier":
        """Return a verifier with the same salt for the same name, as an existing role has."""
        salt = hmac.digest(secret, name.encode(errors="replace"), "sha256")[:16]
        return cls(4096, salt, secrets.token_bytes(32), secrets.token_bytes(32))


class ScramExchange:
    """One exchange of two messages, each handled once and in this order.

    `channel_binding` is the hash of our certificate if the connection uses TLS.
    """

    def __init__(self, verifier: ScramVerifier, channel_binding: bytes | None, *, is_known: bool) -> None:
        self._verifier = verifier
        self._binding = channel_binding
        self._is_known = is_known
        self._header = b""
        self._nonce = ""
        self._messages = ""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return (SCRAM_SHA_256,) if self._binding is None else (SCRAM_SHA_256_PLUS, SCRAM_SHA_256)

    def handle_client_first(self, mechanism: str, data: bytes) -> bytes:
        if mechanism not in self.mechanisms:
            raise ProtocolError(f"the client chose {mechanism[:40]!r}, which was not offered")
        flag, authorization, bare = _split_client_first(_decode_utf8(data))
        self._check_flag(flag, is_plus=mechanism == SCRAM_SHA_256_PLUS)
        if authorization:
            raise ProtocolError(
                "the client requests another authorization identity, which is not supported", FEATURE_NOT_SUPPORTED
            )
        self._header = f"{flag},,".encode()
        self._nonce = _parse_nonce(bare) + _generate_nonce()
        salt = base64.b64encode(self._verifier.salt).decode()
        server_first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._messages = f"{bare},{server_first}"
        return server_first.encode()

    def handle_client_final(self, data: bytes) -> bytes:
        """Verify the client's proof and return the server's signature."""
        nonce, self._nonce = self._nonce, ""
        without_proof, comma, proof = _decode_utf8(data).rpartition(",p=")
        attributes = without_proof.split(",")
        if not nonce or not comma or len(attributes) < 2 or not attributes[0].startswith("c="):
            raise ProtocolError("the client's final SCRAM message is malformed")
        if attributes[1] != f"r={nonce}":
            raise ProtocolError("the client sent another nonce")
        _check_attributes(attributes)
        self._check_binding(_decode_base64(attributes[0][2:]))
        auth_message = f"{self._messages},{without_proof}".encode()
        if not self._is_proven(auth_message, _decode_base64(proof)):
            raise WrongPassword
        signature = hmac.digest(self._verifier.server_key, auth_message, "sha256")
        return b"v=" + base64.b64encode(signature)

    def _check_flag(self, flag: str, *, is_plus: bool) -> None:
        if is_plus and flag != f"p={_BINDING_TYPE}":
            raise ProtocolError(f"the only supported channel binding type is {_BINDING_TYPE}")
        if not is_plus and flag == "y" and self._binding is not None:
            raise ProtocolError(
                "the client supports channel binding but was not offered it: another server may be in between",
                INVALID_AUTHORIZATION,
            )
        if not is_plus and flag not in ("n", "y"):
            raise ProtocolError("the client uses channel binding with a mechanism that does not support it")

    def _check_binding(self, bound: bytes) -> None:
        expected = self._header
        if expected.startswith(b"p="):
            expected += self._binding or b""
        if not hmac.compare_digest(bound, expected):
            raise ProtocolError(
                "the channel binding does not match: another server may be in between, or the certificate has changed",
                INVALID_AUTHORIZATION,
            )

    def _is_proven(self, auth_message: bytes, proof: bytes) -> bool:
        signature = hmac.digest(self._verifier.stored_key, auth_message, "sha256")
        if len(proof) != len(signature):
            raise ProtocolError("the client's proof has the wrong length")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        is_valid = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        return is_valid and self._is_known


def _split_client_first(text: str) -> tuple[str, str, str]:
    """Return the channel binding flag, the authorization identity, and the rest."""
    parts = text.split(",", 2)
    if len(parts) != 3:
        raise ProtocolError("the client's first SCRAM message is malformed")
    return parts[0], parts[1], parts[2]


def _parse_nonce(bare: str) -> str:
    """The message contains a user name too. Like Postgres, we use the one of the startup packet instead."""
    attributes = bare.split(",")
    if len(attributes) < 2 or not attributes[0].startswith("n=") or not attributes[1].startswith("r="):
        raise ProtocolError("the client's first SCRAM message has no user name and nonce")
    _check_attributes(attributes)
    nonce = attributes[1][2:]
    if not _PRINTABLE.fullmatch(nonce):
        raise ProtocolError("the client's nonce has characters that are not printable")
    return nonce


def _check_attributes(attributes: list[str]) -> None:
    if not all(map(_ATTRIBUTE.fullmatch, attributes)):
        raise ProtocolError("a SCRAM message has a malformed attribute")


def _generate_nonce() -> str:
    return base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()


def _decode_utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a SCRAM message is not UTF-8") from None


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("a SCRAM message has invalid base64") from None
