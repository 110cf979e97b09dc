"""Cleartext passwords, for clients that can name the endpoint only in the password."""

import hashlib
import hmac
import re
import stringprep
import unicodedata

from bough.errors import Denied
from bough.gateway.auth.scram import ScramVerifier

MAX_ITERATIONS = 4 * 4096  # the default of Postgres is 4096; the limit protects our CPU
_ENDPOINT_PASSWORD = re.compile(r"(?:endpoint|project)=([a-z0-9-]{1,67})[;$](.*)", re.DOTALL)
_PROHIBITED_TABLES = (
    stringprep.in_table_a1,
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def split_endpoint_password(text: str) -> tuple[str, str] | None:
    """Split `endpoint=…;password` into the endpoint's name and the password."""
    found = _ENDPOINT_PASSWORD.fullmatch(text)
    return (found[1], found[2]) if found else None


def check_iterations(verifier: ScramVerifier) -> None:
    if verifier.iterations > MAX_ITERATIONS:
        raise Denied(
            f"This password is stored with {verifier.iterations} iterations, but cleartext passwords are verified with "
            f"at most {MAX_ITERATIONS}. Name the endpoint by its host or with options=endpoint=…, so that the client "
            "uses SCRAM, or set the password again with a lower scram_iterations."
        )


def verify_password(password: str, verifier: ScramVerifier) -> bool:
    salted = hashlib.pbkdf2_hmac("sha256", saslprep(password), verifier.salt, verifier.iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return hmac.compare_digest(hashlib.sha256(client_key).digest(), verifier.stored_key)


def saslprep(password: str) -> bytes:
    """SASLprep (RFC 4013) as Postgres implements it.

    Postgres checks for prohibited characters before it normalizes, and uses a password with any of them as it is.
    """
    mapped = password if password.isascii() else "".join(map(_map_character, password))
    if password.isascii() or not mapped or _is_prohibited(mapped):
        return password.encode(errors="surrogateescape")
    return unicodedata.normalize("NFKC", mapped).encode()


def _map_character(character: str) -> str:
    if stringprep.in_table_c12(character):
        return " "
    return "" if stringprep.in_table_b1(character) else character


def _is_prohibited(text: str) -> bool:
    if any(table(c) for table in _PROHIBITED_TABLES for c in text):
        return True
    if not any(stringprep.in_table_d1(c) for c in text):
        return False
    has_left_to_right = any(stringprep.in_table_d2(c) for c in text)
    return has_left_to_right or not (stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1]))
