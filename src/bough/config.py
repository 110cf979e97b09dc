"""Settings: read once, frozen.

They come from flags, then `BOUGH_…` variables, then `bough.toml` in the home. An unknown or
wrong setting is refused by name. Nothing else in the program reads the environment for settings.
"""

import difflib
import hashlib
import os
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork, ValidationError, field_validator, model_validator

from bough.errors import InvalidSetting

FILE_NAME = "bough.toml"
VARIABLE_PREFIX = "BOUGH_"
DEFAULT_API_PORT = 8432
MIN_MEMORY = 128 * 1024**2  # bytes; a process of ours that just started takes about a half of it
IGNORED_VARIABLES = frozenset({"BOUGH_REQUIRE"})  # read by the test suite, never by the platform

Port = Annotated[int, Field(ge=1, le=65535)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Region(_Frozen):
    id: Annotated[str, Field(pattern=r"^[a-z0-9]+-[a-z0-9-]{1,40}$")]
    name: str
    latitude: str = "0"
    longitude: str = "0"

    @property
    def cloud(self) -> str:
        return self.id.split("-", 1)[0]

    @property
    def place(self) -> str:
        return self.id.split("-", 1)[1]


class Plan(_Frozen):
    """Limits of an account. `free` is the plan of new accounts, `unclaimed` that of what nobody has claimed yet."""

    organizations: int = 10  # that a person creates, besides the personal one
    projects: int = 100  # of all organizations on the plan that one person created
    branches: int = 500  # of a project
    endpoints: int = 500  # of a project
    roles: int = 500  # of a branch
    databases: int = 500  # of a branch
    snapshots: int = 10  # of a project
    storage_bytes: int = 512 * 1024**2  # of a branch
    transfer_bytes: int = 5 * 1024**3  # of a project to its clients, in a month
    history_seconds: int = 7 * 86400
    max_cu: float = 8


DEFAULT_REGIONS = (Region(id="aws-us-east-2", name="US East 2 (Ohio)", latitude="40.06", longitude="-82.99"),)
DEFAULT_PLANS = {
    "free": Plan(),
    "unlimited": Plan(
        organizations=100_000,
        projects=1_000_000,
        branches=100_000,
        endpoints=100_000,
        roles=100_000,
        databases=100_000,
        snapshots=100_000,
        storage_bytes=16 * 1024**4,
        transfer_bytes=1024**5,
        history_seconds=30 * 86400,
        max_cu=64,
    ),
    "unclaimed": Plan(
        projects=1000,  # of everybody together
        branches=1,
        endpoints=1,
        snapshots=0,
        storage_bytes=100 * 1024**2,
        transfer_bytes=1024**3,  # in its whole life
        history_seconds=0,
    ),
}


def is_root() -> bool:
    return os.geteuid() == 0


def default_home() -> Path:
    return Path("/var/lib/bough") if is_root() else Path(".bough").resolve()


def default_cache() -> Path:
    if is_root():
        return Path("/var/cache/bough")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "bough"


class Settings(_Frozen):
    home: Path = Field(default_factory=default_home, description="where everything of this installation lives")
    cache: Path = Field(default_factory=default_cache, description="where Postgres binaries are kept")
    listen: str = Field("127.0.0.1", description="address that the API and the gateway listen on")
    api_port: Port | None = Field(None, description="port of the API [first choice: 8432]")
    trusted_proxies: tuple[IPvAnyNetwork, ...] = Field(
        (),
        description="addresses or networks of proxies before the API, whose X-Forwarded-For and X-Forwarded-Proto "
        "are believed",
    )
    gateway_port: Port | None = Field(None, description="port for Postgres clients [first choice: 5432]")
    domain: str = Field("localhost", description="domain of the endpoint hosts", pattern=r"^[a-z0-9.-]{1,120}$")
    storage: Literal["auto", "reflink", "btrfs", "plain"] = Field("auto", description="volume driver")
    store_url: str = Field("", description="PostgreSQL URL of the store; empty: SQLite in the home")
    postgres_versions: tuple[Annotated[int, Field(ge=14, le=18)], ...] = Field(
        (17,), description="major versions to fetch and keep ready; the first is the default", min_length=1
    )
    project_uids: tuple[int, int] = Field(
        # Above the ranges that containers and /etc/subuid take from.
        (2_000_000_000, 2_000_060_000),
        description="as root: the range of user ids that computes run under",
    )
    gateway_user: str = Field(
        "bough-gateway",
        description="as root: the user that the gateway runs as; added when it is missing",
        pattern=r"^[a-z_][a-z0-9_-]{0,31}$",
    )
    local_socket_group: str = Field(
        "",
        description="as root: group whose members may use the gateway's local socket; empty: root alone",
        pattern=r"^([a-z_][a-z0-9_-]{0,31})?$",
    )
    gateway_workers: int | None = Field(
        None, ge=1, le=256, description="processes that serve Postgres clients [default: one a core]"
    )
    control_memory_bytes: int | None = Field(
        None,
        ge=MIN_MEMORY,
        description="memory over which control is ended and started again "
        "[default: a quarter of the machine's, 1 GiB at least]",
    )
    gateway_worker_memory_bytes: int | None = Field(
        None,
        ge=MIN_MEMORY,
        description="the same for each gateway worker [default: a quarter for all workers, 512 MiB each at least]",
    )
    tls_certificate: Path | None = Field(
        None, description="your own certificate for Postgres clients, with its chain (PEM); needs tls_key"
    )
    tls_key: Path | None = Field(None, description="the private key of tls_certificate (PEM, without a passphrase)")
    hosts_file: Path | None = Field(
        Path("/etc/hosts"),
        description="where endpoint hosts under localhost are kept if nothing else resolves them; empty: nowhere",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level that is logged")
    log_file_bytes: int = Field(16 * 1024**2, ge=64 * 1024, description="length at which a log file is cut")
    log_files_kept: int = Field(4, ge=1, description="how many pieces of each log are kept beside it")
    regions: tuple[Region, ...] = Field(DEFAULT_REGIONS, description="regions; the first is the default", min_length=1)
    plans: dict[str, Plan] = Field(DEFAULT_PLANS, description="named limits; `free` is for new accounts")
    rate_per_minute: int = Field(700, ge=1, description="requests a minute per key")
    rate_per_second_and_route: int = Field(40, ge=1, description="requests a second per key and route")
    rate_per_minute_and_address: int = Field(300, ge=1, description="requests a minute per address without a key")
    body_limit: int = Field(1024 * 1024, ge=1024, description="largest request body in bytes")
    metrics_open: bool = Field(
        False, description="whether everybody who reaches the API may read /metrics; else the token in keys/metrics may"
    )
    hold_seconds: float = Field(5.0, ge=0, description="how long a request waits for conflicting work before 423")
    operation_workers: int = Field(8, ge=1, description="operations that run at once")
    wake_seconds: float = Field(60.0, gt=0, description="how long a client waits for its compute to wake")
    wakes_at_once: int = Field(16, ge=1, description="computes that are woken at once")
    wakes_per_second: float = Field(50.0, gt=0, description="computes that are woken a second, at most")
    suspend_timeout_default: int = Field(
        300, ge=1, description="seconds without activity after which a compute sleeps, if its endpoint says 0"
    )
    recoverable_seconds: int = Field(7 * 86400, ge=0, description="how long a deleted project can be recovered")
    recoverable_branch_seconds: int = Field(
        86400, ge=0, description="how long a deleted branch can be recovered; its data stays on disk for that time"
    )
    history_base_bytes: int = Field(
        256 * 1024**2,
        ge=16 * 1024**2,
        description="WAL after which a base is taken: a restore replays about so much, at most",
    )
    history_alarm_bytes: int = Field(
        256 * 1024**2, ge=16 * 1024**2, description="WAL that waits to be archived at which an alarm is raised"
    )
    archive_branch_days: float = Field(14, ge=0, description="age at which a branch that nobody uses is archived")
    archive_idle_hours: float = Field(24, ge=0, description="hours without use after which such a branch is archived")
    sign_up: Literal["open", "invitation", "closed"] = Field(
        "invitation", description="who may make an account: anybody, whoever is invited, or nobody but by the operator"
    )
    public_url: str = Field(
        "",
        description="where people reach this installation, for links in mails; https makes cookies secure "
        "[default: the API's own address]",
        pattern=r"^(https?://[A-Za-z0-9.:\[\]-]+)?$",
    )
    smtp_url: str = Field(
        "",
        description="mail server, smtp://user:password@host:587 or smtps://…:465; empty: mails go to the log",
        pattern=r"^(smtps?://\S+)?$",
        repr=False,
    )
    mail_from: str = Field("bough@localhost", description="sender of mails", pattern=r"^[^\s<>@]+@[^\s<>@]+$")
    session_days: float = Field(30, gt=0, le=400, description="days until somebody who signed in must do so again")
    invitation_days: float = Field(7, gt=0, le=400, description="days for which an invitation can be accepted")
    audit_days: float = Field(400, gt=0, description="days for which the audit is kept")
    instant_per_hour: int = Field(
        1000, ge=0, description="instant databases that are made an hour, at most; 0: none are made here"
    )
    instant_per_hour_and_address: int = Field(
        100, ge=1, description="instant databases that one address may make an hour"
    )
    instant_pool: int = Field(
        2, ge=0, le=64, description="instant databases kept ready for an hour after somebody made one; 0: none"
    )
    instant_at_once: int = Field(4, ge=1, description="instant databases that are made at once; others wait in line")
    instant_hours: float = Field(
        72, gt=0, le=24 * 365, description="hours after which an instant database that nobody claimed is deleted"
    )
    warm_pool: int = Field(2, ge=0, le=64, description="computes kept running for new projects; 0: none")
    warm_memory_share: float = Field(
        0.05, ge=0, le=0.5, description="share of the machine's memory that the warm pool stays within"
    )
    free_space_floor: int = Field(
        512 * 1024**2, ge=0, description="free bytes of the home below which nothing new is made"
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> "Settings":
        for name in ("free", "unlimited"):
            if name not in self.plans:
                raise ValueError(f"plans: the plan {name!r} is missing")
        if self.project_uids[0] < 1000 or self.project_uids[1] <= self.project_uids[0]:
            raise ValueError("project_uids: give two numbers, the first at least 1000 and the second larger")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key: give both or neither")
        for path in (self.tls_certificate, self.tls_key, self.hosts_file):
            if path is not None and not path.is_absolute():
                raise ValueError(f"{path}: give the whole path, from / on")
        return self

    @field_validator("plans")
    @classmethod
    def _with_unclaimed(cls, value: dict[str, Plan]) -> dict[str, Plan]:
        """It came later than the others, so files that name plans may not have it."""
        return {"unclaimed": DEFAULT_PLANS["unclaimed"], **value}

    @field_validator("hosts_file", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    @property
    def keys(self) -> Path:
        return self.home / "keys"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def log_file(self) -> Path:
        return self.logs / "control.log"

    @property
    def gateway_log(self) -> Path:
        return self.logs / "gateway.log"

    @property
    def compute_logs(self) -> Path:
        return self.logs / "computes"

    @property
    def store_file(self) -> Path:
        return self.home / "store.db"

    @property
    def tls(self) -> Path:
        return self.home / "tls"

    @property
    def ca_file(self) -> Path:
        """What clients that verify the gateway's certificate are given."""
        return self.home / "ca.crt"

    @property
    def control_socket(self) -> Path:
        """Where control answers the gateway."""
        return self.sockets / "plane" / "control.sock"

    @property
    def gateway_folder(self) -> Path:
        """Where the gateway's workers keep their locks and find one another, and control finds them."""
        return self.sockets / "gateway"

    @property
    def sockets(self) -> Path:
        """A short folder for sockets: Postgres refuses socket paths over 107 bytes."""
        name = hashlib.sha256(str(self.home).encode()).hexdigest()[:8]
        if is_root():
            return Path("/run/bough") / name
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        if runtime and len(runtime) < 50 and os.access(runtime, os.W_OK):
            return Path(runtime) / "bough" / name
        return Path(tempfile.gettempdir()) / f"bough-{os.geteuid()}-{name}"

    def plan(self, name: str) -> Plan:
        """The plan of that name; an account whose plan was taken out of the settings is on `free`."""
        return self.plans.get(name, self.plans["free"])

    def region(self, region_id: str) -> Region | None:
        return next((region for region in self.regions if region.id == region_id), None)


def load_settings(flags: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """The settings in force: flags over variables over the file over defaults."""
    environment = os.environ if environment is None else environment
    given = {name: value for name, value in flags.items() if value is not None}
    variables = _from_environment(environment)
    home = Path(given.get("home") or variables.get("home") or default_home()).expanduser().absolute()
    merged = {**_from_file(home / FILE_NAME), **variables, **given, "home": home}
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise InvalidSetting(_sentence(error)) from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith(VARIABLE_PREFIX) or variable in IGNORED_VARIABLES:
            continue
        name = variable.removeprefix(VARIABLE_PREFIX).lower()
        _check_known(name, f"the variable {variable}")
        values[name] = _read_text(name, text, variable)
    return values


def _read_text(name: str, text: str, variable: str) -> Any:
    """Lists and tables are written as TOML values, everything else as it is."""
    if name in {"regions", "plans", "postgres_versions", "project_uids", "trusted_proxies"}:
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            raise InvalidSetting(f"{variable}: write the value as in {FILE_NAME}, for example [17, 16].") from None
    return text


def _from_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidSetting(f"{path} is not valid TOML: {error}.") from None
    for name in values:
        _check_known(name, str(path))
        if name == "home":
            raise InvalidSetting(f"{path}: 'home' cannot be set inside the home; use --home or BOUGH_HOME.")
    return values


def _check_known(name: str, where: str) -> None:
    if name in Settings.model_fields:
        return
    near = difflib.get_close_matches(name, Settings.model_fields, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else " `bough config` lists the settings."
    raise InvalidSetting(f"{where}: there is no setting {name!r}.{hint}")


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"The setting {where!r} is wrong: {message}." if where else f"Wrong settings: {message}."
