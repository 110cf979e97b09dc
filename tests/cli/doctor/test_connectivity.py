"""The checks of what clients need to connect: certificates and host names."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bough import clock
from bough.cli.doctor import connectivity
from bough.cli.doctor.finding import Verdict
from bough.config import Settings, load_settings
from bough.control.platform import certificates, hostnames
from bough.control.platform.tls_files import TlsFiles
from bough.errors import InvalidSetting
from support.program import Program, create_project, wait_until

NOW = datetime.now(UTC)
WILDCARD = "*.us-east-2.aws.localhost"


class OwnCertificate:
    """A certificate that the operator provides."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = folder / "own.pem", folder / "own.key"
        self._ca = certificates.issue_ca(certificates.generate_key(), NOW - timedelta(days=500))

    def issue(self, name: str = WILDCARD, *, age: int = 0) -> bytes:
        leaf = certificates.issue_leaf(self._ca, [name], NOW - timedelta(days=age))
        self.certificate.write_bytes(leaf.certificate_pem)
        self.key.write_bytes(leaf.key_pem)
        return leaf.certificate_pem

    @property
    def variables(self) -> dict[str, str]:
        return {"BOUGH_TLS_CERTIFICATE": str(self.certificate), "BOUGH_TLS_KEY": str(self.key)}

    def settings(self, home: Path) -> Settings:
        return Settings(home=home, tls_certificate=self.certificate, tls_key=self.key)


@pytest.fixture
def own(folder: Path) -> OwnCertificate:
    return OwnCertificate(folder)


def test_one_of_ours_is_made_shown_and_missed_when_it_was_not_renewed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=folder)
    assert connectivity.check_certificate(settings).message == "will be created"
    settings.keys.mkdir()
    TlsFiles(settings, None).ensure(NOW)
    found = connectivity.check_certificate(settings)
    assert (found.verdict, str(settings.ca_file) in found.message) == (Verdict.OK, True)
    for later in (380, 500):
        monkeypatch.setattr(clock, "now", lambda later=later: NOW + timedelta(days=later))
        found = connectivity.check_certificate(settings)
        assert found.verdict is Verdict.WARNING
        assert "was not renewed in time" in found.message


@pytest.mark.parametrize(
    ("name", "age", "verdict", "words"),
    [
        (WILDCARD, 0, Verdict.OK, "your own, valid until"),
        (WILDCARD, 385, Verdict.WARNING, "Your certificate expires on"),
        ("*.db.example", 0, Verdict.WARNING, f"does not cover {WILDCARD}: clients that verify the host name reject it"),
        (WILDCARD, 400, Verdict.FAILED, "ended on"),
    ],
)
def test_the_operators_own(
    folder: Path, own: OwnCertificate, name: str, age: int, verdict: Verdict, words: str
) -> None:
    own.issue(name, age=age)
    found = connectivity.check_certificate(own.settings(folder / "home"))
    assert found.verdict is verdict
    assert words in found.message


def test_up_refuses_a_bad_one_with_one_sentence(bough: Program, own: OwnCertificate) -> None:
    own.issue()
    own.key.write_bytes(certificates.encode_key(certificates.generate_key()))
    bough.variables = own.variables
    done = bough("up", "--detach", *bough.port_arguments())
    assert (done.returncode, done.stdout) == (1, "")
    assert "names another key than that of the first certificate" in done.stderr
    assert "Traceback" not in done.stderr
    assert not bough.home.exists()


def test_half_a_setting_and_half_a_path_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="tls_certificate and tls_key: give both or neither"):
        load_settings({}, {"BOUGH_TLS_KEY": "/a"})
    with pytest.raises(InvalidSetting, match=r"own\.pem: give an absolute path"):
        load_settings({}, {"BOUGH_TLS_KEY": "/a", "BOUGH_TLS_CERTIFICATE": "own.pem"})


def test_a_running_platform_takes_over_new_files_and_goes_on_with_the_old_when_they_are_bad(
    bough: Program, own: OwnCertificate
) -> None:
    before = own.issue()
    bough.variables = own.variables
    bough.up()
    served = bough.home / "tls" / "gateway.pem"
    assert before in served.read_bytes()
    own.key.write_text("bad")
    log = bough.home / "logs" / "control.log"
    wait_until(lambda: "'tls_key' holds no private key" in log.read_text())
    assert before in served.read_bytes()
    after = own.issue()
    wait_until(lambda: after in served.read_bytes())
    assert bough.status()["control_restarts"] == 0


def test_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = folder / "hosts"
    settings = Settings(home=folder, hosts_file=hosts)
    remote = connectivity.check_hostnames(settings.model_copy(update={"domain": "db.example"}))
    assert remote.message == "your DNS must resolve *.us-east-2.aws.db.example to this machine"
    monkeypatch.setattr(hostnames, "resolve_without_file", lambda _settings: True)
    assert connectivity.check_hostnames(settings).message == f"{WILDCARD} resolves to this machine"
    monkeypatch.setattr(hostnames, "resolve_without_file", lambda _settings: False)
    unresolved = connectivity.check_hostnames(settings)
    assert (unresolved.verdict, unresolved.fix) == (Verdict.WARNING, "apt-get install libnss-myhostname")
    assert f"{hosts} is not writable. Clients need `&hostaddr=127.0.0.1` at the end" in unresolved.message
    off = connectivity.check_hostnames(settings.model_copy(update={"hosts_file": None}))
    assert "the setting 'hosts_file' is empty" in off.message
    hosts.touch()
    assert connectivity.check_hostnames(settings).message == f"each host of {WILDCARD} is written to {hosts}"


@pytest.mark.skipif(
    hostnames.resolve_without_file(Settings()), reason="hosts under localhost resolve by themselves here"
)
def test_hosts_are_in_the_file_from_the_answer_that_names_them_until_down(bough: Program, folder: Path) -> None:
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    hosts.chmod(0o666)
    bough.variables = {"BOUGH_HOSTS_FILE": str(hosts)}
    created = create_project(bough.up(), "first")
    parameters = created["connection_uris"][0]["connection_parameters"]
    listed = hosts.read_text().split()
    assert {parameters[name].partition(":")[0] for name in ("host", "pooler_host")} < set(listed)
    hosts.write_text("127.0.0.1 localhost\n")  # as a container manager does
    assert bough("restart").returncode == 0
    assert parameters["host"].partition(":")[0] in hosts.read_text()
    assert bough("down").returncode == 0
    assert hosts.read_text() == "127.0.0.1 localhost\n"
    bough.up()
    assert parameters["host"].partition(":")[0] in hosts.read_text(), "before `up` prints anything"


def test_the_doctor_shows_them(bough: Program) -> None:
    found = {one["name"]: one for one in json.loads(bough("doctor", "--json").stdout)}
    assert found["certificate"]["sentence"] == "will be created"
    assert found["names"]["verdict"] in {"ok", "warning"}
    assert os.geteuid() or found["gateway"]["sentence"].startswith("runs as the user bough-gateway")
