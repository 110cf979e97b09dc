"""The client side of SCRAM, written from the RFCs and sharing no code with the gateway."""

import base64
import hashlib
import hmac
import secrets
from functools import cache


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


@cache
def hi(password: bytes, salt: bytes, iterations: int) -> bytes:
    """Hi() of RFC 5802 as a loop, without hashlib's implementation; cached per password."""
    block = _hmac(password, salt + b"\0\0\0\1")
    total = int.from_bytes(block)
    for _ in range(iterations - 1):
        block = _hmac(password, block)
        total ^= int.from_bytes(block)
    return total.to_bytes(32)


def make_verifier(password: bytes, salt: bytes, iterations: int) -> str:
    """Encode a verifier as Postgres stores it in pg_authid."""
    salted = hi(password, salt, iterations)
    keys = hashlib.sha256(_hmac(salted, b"Client Key")).digest(), _hmac(salted, b"Server Key")
    stored_key, server_key = (base64.b64encode(key).decode() for key in keys)
    return f"SCRAM-SHA-256${iterations}:{base64.b64encode(salt).decode()}${stored_key}:{server_key}"


class ScramClient:
    def __init__(self, password: bytes, *, header: str = "n,,", bound: bytes = b"", name: str = "") -> None:
        self.password = password
        self.nonce = secrets.token_urlsafe(15)
        self.gs2_header = header
        self.channel_binding = bound
        self.name = name
        self.server_signature = b""

    @property
    def first_message_bare(self) -> str:
        return f"n={self.name},r={self.nonce}"

    def first_message(self) -> bytes:
        return f"{self.gs2_header}{self.first_message_bare}".encode()

    def final_message(self, server_message: bytes) -> bytes:
        attributes = dict(attribute.split("=", 1) for attribute in server_message.decode().split(","))
        assert attributes["r"].startswith(self.nonce)
        assert len(attributes["r"]) > len(self.nonce)
        salted = hi(self.password, base64.b64decode(attributes["s"]), int(attributes["i"]))
        bound = base64.b64encode(self.gs2_header.encode() + self.channel_binding).decode()
        without_proof = f"c={bound},r={attributes['r']}"
        auth_message = f"{self.first_message_bare},{server_message.decode()},{without_proof}".encode()
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), auth_message)
        proof = int.from_bytes(client_key) ^ int.from_bytes(signature)
        self.server_signature = _hmac(_hmac(salted, b"Server Key"), auth_message)
        return f"{without_proof},p={base64.b64encode(proof.to_bytes(32)).decode()}".encode()

    def verify_server(self, server_message: bytes) -> bool:
        return server_message == b"v=" + base64.b64encode(self.server_signature)
