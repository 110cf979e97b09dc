"""The OpenSSL configuration of an install with its own OpenSSL, which must not read that of the machine."""

from pathlib import Path

from bough.engine.local.durable_files import write_atomically

FILE = "openssl.cnf"
# HASH-DRBG: for the default generator OpenSSL fetches every cipher, at the start of each server.
# The legacy provider has ciphers of pgcrypto, such as Blowfish and CAST5, with which stored data may be encrypted.
_TEXT = """\
openssl_conf = settings

[settings]
random = generator
providers = providers

[generator]
random = HASH-DRBG
digest = SHA256

[providers]
default = default_provider
legacy = legacy_provider

[default_provider]
activate = 1

[legacy_provider]
module = {module}
activate = 1
"""


def write(tree: Path, final: Path, triplet: str) -> None:
    """Write it for an install whose final path is given."""
    module = final / "usr" / "lib" / triplet / "ossl-modules" / "legacy.so"
    write_atomically(tree / FILE, _TEXT.format(module=module), mode=0o644)
