"""A compute whose server could load an attacker's library."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bough.domain.output_plugins import OUTPUT_PLUGINS
from bough.engine.local.installs import installs
from security.shared_library import write_library
from support.engine_home import Compute


class Target:
    """A compute of one flavour, a library that its server could load, and the file that shows that it was loaded."""

    def __init__(self, compute: Compute) -> None:
        self.compute = compute
        self.marker = compute.data_folder / "ran"
        cache = compute.home.settings.cache
        self.library = write_library(cache, self.marker)
        self.certificate = _write_certificate(cache / "client.pem")

    def list_plugins(self) -> list[str]:
        """Return the allowed output plugins of the build that decode WAL to text."""
        found = installs.find_installs(self.compute.home.settings.cache).values()
        libraries = installs.select_newest(found)[self.compute.spec.install].libraries
        return [name for name in OUTPUT_PLUGINS if name != "pgoutput" and (libraries / f"{name}.so").is_file()]

    def take_marker(self) -> bool:
        """Return whether the library was loaded since the last call."""
        was_loaded = self.marker.exists()
        self.marker.unlink(missing_ok=True)
        return was_loaded


def _write_certificate(path: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "attacker")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256())
    encoding, layout = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = key.private_bytes(encoding, layout, serialization.NoEncryption())
    path.write_bytes(private + certificate.public_bytes(encoding))
    path.chmod(0o644)
    return path
