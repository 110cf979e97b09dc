"""The CA of an installation can sign only for its own hosts, and real clients enforce that."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509

from bough import clock
from bough.config import Settings
from bough.control.platform import certificates
from bough.control.platform.certificates import SignedCertificate
from bough.control.platform.tls_files import TlsFiles
from support.requirements import require_node

# Connects with TLS, trusts the CA file, and prints "trusted" or the error.
NODE_PROGRAM = """
const tls = require("node:tls"), fs = require("node:fs");
const [port, servername, ca] = process.argv.slice(1);
const socket = tls.connect({ host: "127.0.0.1", port: Number(port), servername, ca: fs.readFileSync(ca) });
socket.on("secureConnect", () => { console.log("trusted"); socket.destroy(); });
socket.on("error", (error) => { console.log(error.message); });
"""


def prepare_tls(home: Path, domain: str) -> Settings:
    """Creates the CA and the certificate of a home."""
    settings = Settings(home=home, domain=domain)
    settings.keys.mkdir(parents=True, exist_ok=True)
    TlsFiles(settings, None).prepare(clock.now())
    return settings


def load_ca(settings: Settings) -> SignedCertificate:
    """Returns the CA with its key, as an attacker has it who stole the key."""
    files = TlsFiles(settings, None)
    key, certificate = files._ca_key(), files._ca_certificate()
    assert key is not None and certificate is not None
    return SignedCertificate(certificate, key)


@contextmanager
def serve_tls(pem: Path) -> Iterator[int]:
    """Serves TLS with this certificate and yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept_clients() -> None:
            with suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    with client, suppress(OSError), context.wrap_socket(client, server_side=True) as secured:
                        secured.recv(1)

        thread = threading.Thread(target=accept_clients, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def verify_with_python(port: int, host: str, ca: Path) -> str:
    context = ssl.create_default_context(cafile=str(ca))
    with socket.create_connection(("127.0.0.1", port)) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=host):
                return "trusted"
        except ssl.SSLCertVerificationError as error:
            return str(error.verify_message)


def verify_with_node(port: int, host: str, ca: Path) -> str:
    require_node()
    command = ["node", "-e", NODE_PROGRAM, str(port), host, str(ca)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


@pytest.mark.parametrize("domain", ["localhost", "db.example.org"])
def test_clients_trust_our_hosts_and_no_others(domain: str, tmp_path: Path) -> None:
    settings = prepare_tls(tmp_path, domain)
    with serve_tls(settings.tls / "gateway.pem") as port:
        for host in (f"ep-one.us-east-2.aws.{domain}", domain, "localhost", "127.0.0.1"):
            assert verify_with_python(port, host, settings.ca_file) == "trusted", host
        assert verify_with_node(port, f"ep-one.us-east-2.aws.{domain}", settings.ca_file) == "trusted"
    forged = certificates.issue_leaf(load_ca(settings), ["bank.example.com"], clock.now())
    (tmp_path / "forged.pem").write_bytes(forged.key_pem + forged.certificate_pem)
    with serve_tls(tmp_path / "forged.pem") as port:
        assert verify_with_python(port, "bank.example.com", settings.ca_file) == "permitted subtree violation"
        assert verify_with_node(port, "bank.example.com", settings.ca_file) == "permitted subtree violation"


def test_another_domain_takes_another_certificate_of_the_authority(tmp_path: Path) -> None:
    before = load_ca(prepare_tls(tmp_path, "localhost")).certificate
    unchanged = load_ca(prepare_tls(tmp_path, "localhost")).certificate
    assert unchanged == before
    settings = prepare_tls(tmp_path, "db.example.org")
    after = load_ca(settings).certificate
    assert (after.subject, after.public_key()) == (before.subject, before.public_key())
    assert settings.ca_file.read_bytes() == load_ca(settings).certificate_pem
    with serve_tls(settings.tls / "gateway.pem") as port:
        assert verify_with_python(port, "ep-one.us-east-2.aws.db.example.org", settings.ca_file) == "trusted"


def test_an_authority_without_constraints_stays_until_it_is_renewed(tmp_path: Path) -> None:
    """Clients of an older installation have the file of its CA."""
    settings = Settings(home=tmp_path)
    for folder in (settings.keys, settings.tls):
        folder.mkdir()
    old = certificates.issue_ca(certificates.generate_key(), clock.now())
    (settings.keys / "ca.key").write_bytes(old.key_pem)
    (settings.tls / "ca.crt").write_bytes(old.certificate_pem)
    for domain in ("localhost", "db.example.org"):
        assert load_ca(prepare_tls(tmp_path, domain)).certificate == old.certificate
    with pytest.raises(x509.ExtensionNotFound):
        old.certificate.extensions.get_extension_for_class(x509.NameConstraints)
