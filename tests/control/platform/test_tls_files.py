"""The files of the gateway's certificate: real handshakes with them, renewal, the operator's own, kills."""

import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from bough.config import Settings
from bough.control.platform import certificates
from bough.control.platform.tls_files import TlsFiles, TlsPaths
from bough.errors import PreconditionFailed

NOW = datetime.now(UTC).replace(microsecond=0)
HOST = "ep-calm-sea-a1b2c3d4.us-east-2.aws.localhost"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "keys").mkdir(mode=0o700)
    return Settings(home=tmp_path)


@pytest.fixture
def paths(settings: Settings) -> TlsPaths:
    return TlsPaths.of(settings)


def ensure(settings: Settings, now: datetime = NOW) -> str:
    return TlsFiles(settings, None).ensure(now)


def shake_hands(gateway: Path, ca: Path, host: str) -> str:
    """A client as libpq with sslmode=verify-full; the TLS version they agreed on."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(gateway)
    client = ssl.create_default_context(cafile=str(ca))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()
    ours.settimeout(10)

    def answer() -> None:
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    answering = threading.Thread(target=answer)
    answering.start()
    try:
        with client.wrap_socket(ours, server_hostname=host) as connection:
            return str(connection.version())
    finally:
        ours.close()
        answering.join()


@pytest.mark.parametrize("host", [HOST, HOST.replace(".", "-pooler.", 1), "localhost", "127.0.0.1", "::1"])
def test_a_client_that_verifies_everything_is_content(settings: Settings, paths: TlsPaths, host: str) -> None:
    assert ensure(settings) == "issued a certificate, because there was none"
    assert shake_hands(paths.gateway, settings.ca_file, host) == "TLSv1.3"


def test_a_client_refuses_another_host_and_another_authority(settings: Settings, paths: TlsPaths) -> None:
    ensure(settings)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(paths.gateway, settings.ca_file, "ep-calm-sea.elsewhere.example")
    other = settings.model_copy(update={"home": settings.home / "other"})
    other.keys.mkdir(parents=True)
    ensure(other)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        shake_hands(paths.gateway, other.ca_file, HOST)


def test_openssl_agrees(settings: Settings, paths: TlsPaths) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("this test needs openssl")
    ensure(settings)
    command = [openssl, "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", HOST]
    done = subprocess.run([*command, "-CAfile", paths.ca, paths.gateway], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{paths.gateway}: OK\n"), done.stderr


def test_who_may_read_what(settings: Settings, paths: TlsPaths) -> None:
    ensure(settings)
    modes = {path: oct(path.stat().st_mode & 0o777) for path in (paths.folder, paths.gateway, paths.ca_key)}
    assert modes == {paths.folder: "0o700", paths.gateway: "0o600", paths.ca_key: "0o600"}
    assert oct(settings.ca_file.stat().st_mode & 0o777) == "0o644"
    if os.geteuid() == 0:
        TlsFiles(settings, 4321).ensure(NOW + timedelta(days=300))
        modes = {path: oct(path.stat().st_mode & 0o777) for path in (paths.folder, paths.gateway)}
        assert modes == {paths.folder: "0o750", paths.gateway: "0o640"}
        assert {paths.folder.stat().st_gid, paths.gateway.stat().st_gid} == {4321}
        assert (paths.gateway.stat().st_uid, paths.ca_key.stat().st_gid) == (0, 0)


def test_nothing_is_written_while_all_is_well(settings: Settings, paths: TlsPaths) -> None:
    ensure(settings)
    before = {path: path.stat().st_mtime_ns for path in settings.home.rglob("*")}
    assert ensure(settings, NOW + timedelta(days=100)) == ""
    assert {path: path.stat().st_mtime_ns for path in settings.home.rglob("*")} == before


def test_it_is_renewed_under_the_same_authority(settings: Settings, paths: TlsPaths) -> None:
    ensure(settings)
    before, ca = paths.read_leaf(), paths.ca.read_bytes()
    assert ensure(settings, NOW + timedelta(days=300)) == "issued a certificate, because it expires soon"
    after = paths.read_leaf()
    assert before and after and after.not_valid_after_utc > before.not_valid_after_utc
    assert paths.ca.read_bytes() == ca


def test_it_follows_the_names(settings: Settings, paths: TlsPaths) -> None:
    ensure(settings)
    ca = paths.ca.read_bytes()
    renamed = settings.model_copy(update={"domain": "db.localhost"})
    assert ensure(renamed) == "issued a certificate, because the names changed"
    assert paths.ca.read_bytes() == ca
    assert shake_hands(paths.gateway, settings.ca_file, "ep-a.us-east-2.aws.db.localhost")


@pytest.mark.parametrize("lost", ["gateway", "ca", "ca_copy", "ca_key"])
@pytest.mark.parametrize("how", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_what_is_lost_is_made_again(
    settings: Settings, paths: TlsPaths, lost: str, how: Callable[[Path], None]
) -> None:
    ensure(settings)
    how(getattr(paths, lost))
    ensure(settings)
    assert shake_hands(paths.gateway, settings.ca_file, HOST)
    assert ensure(settings) == ""


def test_a_lost_certificate_of_the_authority_is_made_again_with_its_key(settings: Settings, paths: TlsPaths) -> None:
    ensure(settings)
    client_copy = settings.home / "kept-by-a-client.crt"
    shutil.copy(paths.ca, client_copy)
    paths.gateway.unlink()
    ensure(settings)
    assert shake_hands(paths.gateway, client_copy, HOST), "clients with the old file still connect"


def test_a_kill_at_any_write_leaves_usable_files(
    settings: Settings, paths: TlsPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails before each rename in turn."""
    rename = Path.rename
    for count in range(5):
        for renewing in (False, True):
            for path in (paths.folder, settings.ca_file, paths.ca_key):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
            if renewing:
                ensure(settings, NOW - timedelta(days=300))
            renamed = [0]

            def fail_at(path: Path, target: Path, renamed: list[int] = renamed, last: int = count) -> Path:
                if renamed[0] == last:
                    raise KeyboardInterrupt
                renamed[0] += 1
                return rename(path, target)

            with monkeypatch.context() as patched:
                patched.setattr(Path, "rename", fail_at)
                try:
                    ensure(settings)
                except KeyboardInterrupt:
                    pass
            if renewing:
                assert shake_hands(paths.gateway, settings.ca_file, HOST), "unchanged"
            ensure(settings)
            assert shake_hands(paths.gateway, settings.ca_file, HOST)


class OperatorFiles:
    """The operator's own certificate, in files outside the home."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.certificate, self.key, self.ca = folder / "leaf.pem", folder / "leaf.key", folder / "ca.pem"
        self.authority = certificates.issue_ca(certificates.generate_key(), NOW)
        self.ca.write_bytes(self.authority.certificate_pem)

    def issue(self, *names: str, now: datetime = NOW) -> None:
        leaf = certificates.issue_leaf(self.authority, names or ["*.us-east-2.aws.localhost"], now)
        self.certificate.write_bytes(leaf.certificate_pem + self.authority.certificate_pem)
        self.key.write_bytes(leaf.key_pem)


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorFiles]:
    files = OperatorFiles(tmp_path_factory.mktemp("own") / "files")
    files.issue()
    yield files


@pytest.fixture
def with_own(settings: Settings, own: OperatorFiles) -> Settings:
    return settings.model_copy(update={"tls_certificate": own.certificate, "tls_key": own.key})


def test_the_operators_own_is_taken_over_with_its_chain(
    with_own: Settings, own: OperatorFiles, paths: TlsPaths
) -> None:
    files = TlsFiles(with_own, None)
    files.prepare(NOW)
    assert shake_hands(paths.gateway, own.ca, HOST)
    text = paths.gateway.read_text()
    assert text.index("PRIVATE KEY") < text.index("BEGIN CERTIFICATE")
    assert text.count("BEGIN CERTIFICATE") == 2
    assert files.ensure(NOW) == ""
    own.issue()
    assert files.ensure(NOW) == f"installed the certificate from {own.certificate}"


def test_a_bad_new_file_is_named_once_and_leaves_the_old_one(
    with_own: Settings, own: OperatorFiles, paths: TlsPaths
) -> None:
    files = TlsFiles(with_own, None)
    files.ensure(NOW)
    before = paths.gateway.read_bytes()
    own.certificate.write_text("half a file")
    with pytest.raises(PreconditionFailed, match="contains no PEM certificate"):
        files.ensure(NOW)
    assert files.ensure(NOW) == "", "it is reported once"
    assert paths.gateway.read_bytes() == before
    TlsFiles(with_own, None).prepare(NOW)  # a restart continues with the old one
    own.issue()
    assert files.ensure(NOW)


def test_the_first_start_needs_a_good_one(with_own: Settings, own: OperatorFiles) -> None:
    own.certificate.unlink()
    with pytest.raises(PreconditionFailed, match=r"\(setting 'tls_certificate'\) cannot be read: No such file"):
        TlsFiles(with_own, None).prepare(NOW)


def test_back_to_one_of_ours(settings: Settings, with_own: Settings, paths: TlsPaths) -> None:
    ensure(with_own)
    assert ensure(settings).startswith("issued a certificate, because")
    assert shake_hands(paths.gateway, settings.ca_file, HOST)


def test_what_cannot_be_used_is_refused_with_a_sentence(with_own: Settings, own: OperatorFiles) -> None:
    def expect_error(words: str) -> None:
        with pytest.raises(PreconditionFailed, match=words):
            TlsFiles(with_own, None).ensure(NOW)

    key = own.key.read_bytes()
    own.key.write_bytes(certificates.encode_key(certificates.generate_key()))
    expect_error("does not match the first certificate")
    own.key.write_text("none")
    expect_error("'tls_key' contains no PEM private key")
    private = serialization.load_pem_private_key(key, None)
    own.key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    expect_error("has a passphrase")
    own.issue(now=NOW - timedelta(days=400))
    expect_error(r"expired on 20\d\d-")
    own.certificate.write_bytes(_signed_with_ed25519(own))
    expect_error("Ed25519.*not support channel binding")


def _signed_with_ed25519(own: OperatorFiles) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    own.key.write_bytes(certificates.encode_key(key))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + timedelta(days=9))
    signed = builder.sign(ed25519.Ed25519PrivateKey.generate(), None)
    assert not isinstance(signed.signature_hash_algorithm, hashes.SHA256)
    return signed.public_bytes(serialization.Encoding.PEM)
