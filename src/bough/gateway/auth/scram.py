"""The server's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677, RFC 5929).

An exchange for someone unknown does the same work on a verifier of chance, and fails at its end as a
wrong password does.
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
_BINDING = "tls-server-end-point"
_NONCE_BYTES = 18
_LARGEST_COUNT = 2**31 - 1
_PRINTABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")  # all but the comma
_ATTRIBUTE = re.compile(r"[A-Za-z]=[^,\0]*")
_VERIFIER = re.compile(r"SCRAM-SHA-256\$([0-9]{1,10}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")


class WrongPassword(Exception):
    """The proof does not fit, or there was nothing it could fit."""


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """What a server keeps of a password."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def parse(cls, text: str) -> "ScramVerifier | None":
        """From the form that Postgres stores; None when it is another kind."""
        found = _VERIFIER.fullmatch(text)
        if found is None or not 1 <= int(found[1]) <= _LARGEST_COUNT:
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
        """Always the same salt for the same name, as a role that exists would have."""
        salt = hmac.digest(secret, name.encode(errors="replace"), "sha256")[:16]
        return cls(4096, salt, secrets.token_bytes(32), secrets.token_bytes(32))


class ScramExchange:
    """Two answers, in this order and once each. `binding` is the hash of our certificate, when there is TLS."""

    def __init__(self, verifier: ScramVerifier, channel_binding: bytes | None, *, is_known: bool) -> None:
        self._verifier = verifier
        self._binding = channel_binding
        self._is_known = is_known
        self._header = b""
        self._nonce = ""
        self._said = ""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return (SCRAM_SHA_256,) if self._binding is None else (SCRAM_SHA_256_PLUS, SCRAM_SHA_256)

    def handle_client_first(self, mechanism: str, data: bytes) -> bytes:
        if mechanism not in self.mechanisms:
            raise ProtocolError(f"the client chose {mechanism[:40]!r}, which was not offered")
        flag, authorization, bare = _split_client_first(_text(data))
        self._check_flag(flag, is_plus=mechanism == SCRAM_SHA_256_PLUS)
        if authorization:
            raise ProtocolError("the client wants to be somebody else, which is not supported", FEATURE_NOT_SUPPORTED)
        self._header = f"{flag},,".encode()
        self._nonce = _nonce(bare) + _server_nonce()
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._said = f"{bare},{answer}"
        return answer.encode()

    def handle_client_final(self, data: bytes) -> bytes:
        """The server's own proof, when the client's is right."""
        nonce, self._nonce = self._nonce, ""
        without_proof, comma, proof = _text(data).rpartition(",p=")
        words = without_proof.split(",")
        if not nonce or not comma or len(words) < 2 or not words[0].startswith("c="):
            raise ProtocolError("the client's last SCRAM message is not one")
        if words[1] != f"r={nonce}":
            raise ProtocolError("the client answers with another nonce")
        _check_attributes(words)
        self._check_binding(_decoded(words[0][2:]))
        said = f"{self._said},{without_proof}".encode()
        if not self._is_proven(said, _decoded(proof)):
            raise WrongPassword
        signature = hmac.digest(self._verifier.server_key, said, "sha256")
        return b"v=" + base64.b64encode(signature)

    def _check_flag(self, flag: str, *, is_plus: bool) -> None:
        if is_plus and flag != f"p={_BINDING}":
            raise ProtocolError(f"channel binding is only known as {_BINDING}")
        if not is_plus and flag == "y" and self._binding is not None:
            raise ProtocolError(
                "the client could bind the channel and was told that we cannot: somebody is in between",
                INVALID_AUTHORIZATION,
            )
        if not is_plus and flag not in ("n", "y"):
            raise ProtocolError("the client binds the channel without having chosen to")

    def _check_binding(self, bound: bytes) -> None:
        wanted = self._header
        if wanted.startswith(b"p="):
            wanted += self._binding or b""
        if not hmac.compare_digest(bound, wanted):
            raise ProtocolError(
                "the channel binding does not fit: somebody is in between, or the certificate is another",
                INVALID_AUTHORIZATION,
            )

    def _is_proven(self, said: bytes, proof: bytes) -> bool:
        signature = hmac.digest(self._verifier.stored_key, said, "sha256")
        if len(proof) != len(signature):
            raise ProtocolError("the client's proof is not of the right length")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        fits = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        return fits and self._is_known


def _split_client_first(text: str) -> tuple[str, str, str]:
    """The flag of channel binding, the identity that is wanted, and the rest."""
    parts = text.split(",", 2)
    if len(parts) != 3:
        raise ProtocolError("the client's first SCRAM message is not one")
    return parts[0], parts[1], parts[2]


def _nonce(bare: str) -> str:
    """The user's name is there too; Postgres takes the one of the startup packet, and so do we."""
    words = bare.split(",")
    if len(words) < 2 or not words[0].startswith("n=") or not words[1].startswith("r="):
        raise ProtocolError("the client's first SCRAM message has no name and nonce")
    _check_attributes(words)
    nonce = words[1][2:]
    if not _PRINTABLE.fullmatch(nonce):
        raise ProtocolError("the client's nonce cannot be printed")
    return nonce


def _check_attributes(words: list[str]) -> None:
    if not all(map(_ATTRIBUTE.fullmatch, words)):
        raise ProtocolError("a SCRAM message has words that are no attributes")


def _server_nonce() -> str:
    return base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a SCRAM message is not UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("a SCRAM message is not base64 where it must be") from None
