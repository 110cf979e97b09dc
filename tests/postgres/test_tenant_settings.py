"""Settings of tenants: the table and the parsing of values are compared with real servers; error messages."""

import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from bough.config import default_cache
from bough.engine.local.installs import download, installs
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation.sandbox import build_popen_options, find_initdb_identity
from bough.engine.spec import build_compute_settings, build_size_settings
from bough.errors import Invalid
from bough.postgres import postgresql_conf, tenant_settings
from bough.postgres.tenant_settings import extension_settings, time_zones
from bough.postgres.tenant_settings.reserved import RESERVED_SETTINGS
from bough.postgres.tenant_settings.table import (
    ALL_SETTINGS,
    NEWEST_MAJOR,
    OLDEST_MAJOR,
    TEXT_SEARCHES,
    TOPICS,
    Setting,
    available_settings,
)
from bough.postgres.tenant_settings.value_types import BoolType, EnumType, IntegerType, ListedType, RealType, ValueType
from support.platform import temporary_folder

COLUMNS = "name, vartype, coalesce(unit, ''), min_val, max_val, array_to_string(enumvals, ','), context"
BUILD_DEPENDENT = {"lz4", "zstd", "io_uring"}  # values that not every build supports
WITHOUT_DEBUG = {"log_min_error_statement"}  # settings that do not offer every value
ROUNDS = 12
SIZES = ("B", "kB", "MB", "GB", "TB")
TIMES = ("us", "ms", "s", "min", "h", "d")
MAJORS = sorted({17} | {install.major for install in installs.find_installs(default_cache()).values()})


@dataclass(frozen=True)
class Row:
    vartype: str
    unit: str
    least: str
    most: str
    values: str
    context: str


@dataclass(frozen=True)
class Server:
    """A data directory without a running server, and its Postgres program."""

    install: Install
    data: Path

    @property
    def major(self) -> int:
        return self.install.major

    def try_settings(self, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Tests whether the server would start with the settings: it reads all of them and prints one."""
        options = [word for name, text in settings.items() for word in ("-c", f"{name}={text}")]
        return self._run(["postgres", "-D", str(self.data), *options, "-C", next(iter(settings))])

    def query(self, sql: str, *options: str) -> list[list[str]]:
        command = ["postgres", "--single", "-j", "-D", str(self.data), *options, "postgres"]
        done = self._run(command, f"copy ({sql}) to stdout\n")
        assert done.returncode == 0, done.stderr
        lines = (line.removeprefix("backend> ") for line in done.stdout.splitlines())
        return [line.split("\t") for line in lines if "\t" in line]

    def rows(self, *options: str) -> dict[str, Row]:
        return {name.lower(): Row(*rest) for name, *rest in self.query(f"select {COLUMNS} from pg_settings", *options)}

    def initdb(self) -> None:
        done = self._run(["initdb", "-N", "-E", "UTF8", "--locale=C", "-A", "trust", "-D", str(self.data)])
        assert done.returncode == 0, done.stderr

    def _run(self, command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
        options = build_popen_options(find_initdb_identity())
        del options["stdin"]
        program = self.install.program_path(command[0])
        return subprocess.run(
            [program, *command[1:]], input=text, capture_output=True, text=True, check=False, **options
        )


@pytest.fixture(
    scope="module",
    params=[each if each == 17 else pytest.param(each, marks=pytest.mark.long) for each in MAJORS],
    ids=str,
)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    download.fetch_install(17, default_cache())
    install = installs.select_preferred(installs.find_installs(default_cache()).values())[request.param]
    with temporary_folder(0o777) as folder:
        created = Server(install, folder / "data")
        created.initdb()
        yield created


# The table matches the servers.


def test_the_table_is_what_the_server_says(server: Server) -> None:
    rows = server.rows()
    wrong = [
        (name, difference)
        for name, setting in available_settings(server.major).items()
        for difference in differences(setting, rows[name])
    ]
    assert wrong == []
    assert len(available_settings(server.major)) > 140


@pytest.mark.parametrize("library", extension_settings.TOPICS)
def test_the_settings_of_extensions_are_what_the_server_says(server: Server, library: str) -> None:
    if not (server.install.libraries / f"{library}.so").is_file():
        pytest.skip(f"this build has no {library}")
    rows = server.rows("-c", f"shared_preload_libraries={library}")
    wrong = [
        (setting.name, difference)
        for setting in extension_settings.TOPICS[library]
        if setting.name in extension_settings.available_extension_settings(server.major)
        for difference in differences(setting, rows[setting.name])
    ]
    assert wrong == []


def differences(setting: Setting, row: Row) -> Iterator[str]:
    kind = setting.value_type
    if kind.vartype != row.vartype:
        yield f"is a {row.vartype}"
    if setting.needs_restart != (row.context == "postmaster"):
        yield f"has the context {row.context}"
    if isinstance(kind, EnumType):
        values = set(row.values.split(",")) - BUILD_DEPENDENT
        if not set(kind.values) <= values or (set(kind.values) != values and setting.name not in WITHOUT_DEBUG):
            yield f"has the values {row.values}"
    if isinstance(kind, RealType):
        if (kind.unit, float(f"{kind.minimum:g}"), float(f"{kind.maximum:.5e}")) != (
            row.unit,
            float(f"{float(row.least):g}"),
            float(f"{float(row.most):.5e}"),
        ):
            yield f"goes from {row.least} to {row.most} {row.unit}"
        if kind.allowed_range and not kind.minimum <= kind.allowed_range[0] <= kind.allowed_range[1] <= kind.maximum:
            yield "has bounds outside of its range"


def test_every_setting_of_the_server_is_offered_or_withheld(server: Server) -> None:
    known = server.rows().keys()
    assert known - available_settings(server.major).keys() - RESERVED_SETTINGS.keys() == set()
    with pytest.raises(Invalid, match="is managed by the platform"):
        tenant_settings.check_settings({"fsync": "off"}, server.major)


def test_the_server_knows_the_time_zones(server: Server) -> None:
    known = {name for name, _ in server.query("select name, abbrev from pg_timezone_names")}
    assert time_zones.TIME_ZONES - known == set()


def test_the_server_knows_the_text_search_configurations(server: Server) -> None:
    known = {name for name, _ in server.query("select cfgname, cfgowner from pg_ts_config")}
    assert set(TEXT_SEARCHES) - known == set()


@pytest.mark.parametrize("major", range(OLDEST_MAJOR, NEWEST_MAJOR + 1))
def test_a_name_means_one_thing(major: int) -> None:
    names = [setting.name for setting in ALL_SETTINGS if setting.since <= major <= setting.until]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)
    assert not RESERVED_SETTINGS.keys() & names


# Values are parsed as the servers parse them.


def number(kind: RealType, dice: random.Random) -> str:
    units = SIZES if kind.unit in ("B", "kB", "8kB", "MB") else TIMES if kind.unit else ()
    least, most = kind.allowed_range or (kind.minimum, kind.maximum)
    edge = dice.choice((least, most, kind.minimum, kind.maximum, 0, 1, kind.off_value or 0))
    number = dice.choice((edge, edge + 1, edge - 1, dice.uniform(-2, 2), 10 ** dice.uniform(0, 11)))
    text: str = dice.choice((f"{number:.0f}", f"{number:.3f}", f"{number:.2e}", f"{number:g}", f"+{abs(number):.1f}"))
    unit: str = dice.choice((*units, "", ""))
    return "".join(dice.choice(("", "", " ")) + part for part in (text, unit, ""))


def some_text(kind: ValueType, dice: random.Random) -> str:
    if isinstance(kind, RealType):
        return number(kind, dice)
    if isinstance(kind, EnumType):
        return dice.choice((*kind.values, kind.values[0].upper()))
    if isinstance(kind, ListedType):
        return dice.choice((*sorted(kind.values), sorted(kind.values)[0].upper()))
    if isinstance(kind, BoolType):
        word = dice.choice(("on", "off", "true", "false", "yes", "no", "1", "0", "ON", "False", ""))
        return word[: dice.randint(0, 6)]
    words = ("iso", "DMY", "german", "public", '"$user"', '"a b"', "pg_catalog.english", "simple", "_x$1", "é", '"é"')
    return dice.choice((", ", ",", " , ")).join(dice.choices(words, k=dice.randint(0, 3)))


def is_accepted(name: str, text: str, major: int) -> bool:
    try:
        tenant_settings.check_settings({name: text}, major)
    except Invalid:
        return False
    return True


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_the_server_takes_what_is_taken(server: Server, seed: int) -> None:
    dice = random.Random(seed)
    accepted: dict[str, str] = {}
    for name, setting in available_settings(server.major).items():
        tries = (some_text(setting.value_type, dice) for _ in range(40))
        text = next((text for text in tries if is_accepted(name, text, server.major)), None)
        if text is not None:
            accepted[name] = text
    assert len(accepted) > 130
    done = server.try_settings(accepted)
    assert done.returncode == 0, done.stderr


def test_what_is_out_of_range_the_server_refuses(server: Server, is_long_run: bool) -> None:
    """Each text needs a start of the server."""
    dice = random.Random(1)
    tried = 0
    for name, setting in available_settings(server.major).items():
        kind = setting.value_type
        texts = [some_text(kind, dice) for _ in range(60)] if isinstance(kind, RealType) else []
        outside = [text for text in texts if is_outside(kind, text)]
        for text in outside[: 2 if is_long_run else dice.randrange(2)]:
            done = server.try_settings({name: text})
            assert done.returncode != 0, f"{name} = {text!r} gives {done.stdout}"
            tried += 1
    assert tried > (60 if is_long_run else 15)


def is_outside(kind: ValueType, text: str) -> bool:
    value = kind.parse(text) if isinstance(kind, RealType) else None
    return isinstance(kind, RealType) and value is not None and not kind.minimum <= value <= kind.maximum


def test_numbers_mean_what_the_server_makes_of_them(server: Server) -> None:
    """The server prints a number without its unit when it prints a setting."""
    dice = random.Random(2)
    kinds = {
        name: setting.value_type
        for name, setting in available_settings(server.major).items()
        if isinstance(setting.value_type, IntegerType)
    }
    for name in dice.sample(sorted(kinds), 25):
        kind = kinds[name]
        assert isinstance(kind, IntegerType)
        text = next(text for _ in range(400) if is_accepted(name, text := number(kind, dice), server.major))
        done = server.try_settings({name: text})
        assert done.returncode == 0, done.stderr
        assert kind.parse(done.stdout.strip()) == kind.parse(text), f"{name} = {text!r}"


# Error messages.


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"work_memm": "4MB"}, "contains 'work_memm', which is not a setting of Postgres 17. Did you mean 'work_mem'?"),
        ({"shared_bufers": "4MB"}, "Did you mean 'shared_buffers'?"),
        ({"quux": "1"}, "contains 'quux', which is not a setting of Postgres 17. docs/computes.md lists the"),
        ({"Shared_Buffers": "1GB"}, "'Shared_Buffers', which follows from the size of the compute: change autoscaling"),
        ({"effective_cache_size": "1GB"}, "follows from the size"),
        ({"max_connections": "1000"}, "follows from the size"),
        (
            {"archive_command": "cp %p /x"},
            "contains 'archive_command', which is managed by the platform and cannot be set.",
        ),
        ({"shared_preload_libraries": "x"}, "is managed by the platform"),
        ({"session_replication_role": "replica"}, "is managed by the platform"),
        ({"standard_conforming_strings": "off"}, "is managed by the platform"),
        ({"wal_level": "logical"}, "follows from the project's setting enable_logical_replication"),
        ({"autovacuum": "off"}, "stays on: tune it with the other autovacuum settings"),
        ({"application_name": "x"}, "use ALTER ROLE … SET or ALTER DATABASE … SET."),
        ({"plpgsql.variable_conflict": "error"}, "belongs to an extension: use ALTER ROLE … SET"),
        (
            {"vacuum_truncate": "off"},
            "contains 'vacuum_truncate', which Postgres 17 does not have; it was added in Postgres 18.",
        ),
        ({"work_mem": "4XB"}, "pg_settings.work_mem is '4XB': use a size in B, kB, MB, GB or TB, from 64kB to"),
        ({"work_mem": "32kB"}, "from 64kB to 2147483647kB."),
        ({"statement_timeout": "-1"}, "use a time in us, ms, s, min, h or d, from 0ms to 2147483647ms."),
        ({"idle_session_timeout": "5ms"}, "use 0 or a time in us, ms, s, min, h or d, from 1000ms to"),
        ({"geqo_effort": "11"}, "is '11': use a whole number from 1 to 10."),
        ({"random_page_cost": "cheap"}, "use a number from 0 to 1.79769e+308."),
        ({"enable_seqscan": "o"}, "pg_settings.enable_seqscan is 'o': use on or off."),
        ({"log_statement": "some"}, "use one of none, ddl, mod, all."),
        ({"timezone": "Mars/Phobos"}, "use the current name of a time zone, such as Europe/Berlin."),
        ({"work_mem": "4MB", "WORK_MEM": "8MB"}, "contains 'work_mem' more than once: write it once, in lower case."),
    ],
)
def test_a_refusal_says_what_is_wrong_and_what_is_possible(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        tenant_settings.check_settings(settings, 17)
    assert sentence in refused.value.public_message


def test_a_setting_that_an_extension_has_later_is_refused_with_its_version() -> None:
    settings = {"auto_explain.log_parameter_max_length": "1kB"}
    tenant_settings.check_settings(settings, 16)
    with pytest.raises(Invalid, match="Postgres 15 does not have; it was added in Postgres 16"):
        tenant_settings.check_settings(settings, 15)
    assert tenant_settings.filter_accepted(settings, 15) == {}


@pytest.mark.parametrize(
    "text", ["4MB\nfsync=off", "4MB\0", "4MB\r", "4\tMB", "010", "0x10", "1e400", "inf", "nan", "", " "]
)
def test_odd_texts_are_refused(text: str) -> None:
    assert not is_accepted("work_mem", text, 17)
    assert not is_accepted("search_path", text, 17) or text in ("", "inf", "nan")


def test_texts_cannot_end_their_line() -> None:
    assert not is_accepted("search_path", "public\nfsync = off", 17)
    assert not is_accepted("search_path", "a" * 3000, 17)
    assert is_accepted("search_path", '"it\'s; \\", public', 17)


def test_names_are_taken_in_any_case() -> None:
    tenant_settings.check_settings(
        {"TimeZone": "europe/BERLIN", "DateStyle": "ISO, DMY", "IntervalStyle": "iso_8601"}, 17
    )
    assert tenant_settings.filter_accepted({"TimeZone": "UTC"}, 17) == {"timezone": "UTC"}


# Accepted settings never override the platform's.


def test_only_what_may_be_set_is_accepted() -> None:
    stored = {"work_mem": "8MB", "fsync": "off", "FSYNC": "off", "geqo_effort": "77", "transaction_timeout": "5s"}
    assert tenant_settings.filter_accepted(stored, 17) == {"work_mem": "8MB", "transaction_timeout": "5s"}
    assert tenant_settings.filter_accepted(stored, 16) == {"work_mem": "8MB"}
    assert tenant_settings.filter_accepted(None, 16) == {}


def test_the_tenant_may_say_otherwise_only_where_the_platform_does_not_mind() -> None:
    names = {setting.name for setting in ALL_SETTINGS}
    assert names & build_compute_settings(1, logical_replication=True).keys() == set()
    assert names & build_size_settings(1).keys() == {"work_mem", "maintenance_work_mem"}
    assert names & postgresql_conf.COMPUTE_DEFAULTS.keys() == {
        "timezone",
        "datestyle",
        "jit",
        "default_text_search_config",
        "autovacuum_naptime",
        "max_locks_per_transaction",
        "max_wal_senders",
        "max_replication_slots",
        "max_slot_wal_keep_size",
    }


# The documentation lists all settings.

PAGE = Path(__file__).parents[2] / "docs" / "computes.md"


def listed(topics: Mapping[str, Sequence[Setting]], restart: str) -> str:
    services = []
    for topic, settings in topics.items():
        alike: dict[tuple[str, str, str], list[str]] = {}
        for setting in settings:
            what = (setting.value_type.hint, versions(setting), restart if setting.needs_restart else "")
            alike.setdefault(what, []).append(f"`{setting.name}`")
        rows = [f"| {', '.join(names)} | {' | '.join(what)} |" for what, names in alike.items()]
        services.append("\n".join([f"### {topic}", "", "| setting | value | Postgres | |", "|---|---|---|---|", *rows]))
    return "\n\n".join(services) + "\n"


def versions(setting: Setting) -> str:
    if (setting.since, setting.until) == (OLDEST_MAJOR, NEWEST_MAJOR):
        return ""
    return f"from {setting.since}" if setting.until == NEWEST_MAJOR else f"until {setting.until}"


def test_the_page_on_computes_lists_them_all() -> None:
    _, _, after = PAGE.read_text().partition("## The list\n\n")
    core, _, extensions = after.partition("\n## Settings of extensions\n\n")
    assert core == (expected := listed(TOPICS, "restart")), f"the list should be:\n{expected}"
    _, _, table = extensions.partition("\n\n### ")
    expected = listed(extension_settings.TOPICS, "next start")
    assert f"### {table}" == expected, f"the list should be:\n{expected}"
