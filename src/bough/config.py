"""Settings: read once at startup and immutable.

They come from flags, then `BOUGH_…` variables, then `bough.toml` in the home. Unknown and invalid settings are
rejected by name. No other module reads settings from the environment.
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
MIN_MEMORY = 128 * 1024**2  # bytes; a process that has just started uses about half of it
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
    """Limits of an account. New accounts have the plan `free`, unclaimed databases the plan `unclaimed`."""

    organizations: int = 10  # per user, besides the personal one
    projects: int = 100  # per creator, in all organizations on this plan
    branches: int = 500  # per project
    endpoints: int = 500  # per project
    roles: int = 500  # per branch
    databases: int = 500  # per branch
    snapshots: int = 10  # per project
    storage_bytes: int = 512 * 1024**2  # per branch
    transfer_bytes: int = 5 * 1024**3  # to clients, per project and month
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
        projects=1000,  # in total
        branches=1,
        endpoints=1,
        snapshots=0,
        storage_bytes=100 * 1024**2,
        transfer_bytes=1024**3,  # in total, without monthly reset
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
    home: Path = Field(default_factory=default_home, description="directory of all data of this installation")
    cache: Path = Field(default_factory=default_cache, description="directory of downloaded Postgres builds")
    listen: str = Field("127.0.0.1", description="listen address of the API and the gateway")
    api_port: Port | None = Field(None, description="port of the API [default: 8432 if it is free]")
    trusted_proxies: tuple[IPvAnyNetwork, ...] = Field(
        (),
        description="addresses or networks of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto headers are "
        "trusted",
    )
    gateway_port: Port | None = Field(None, description="port for Postgres clients [default: 5432 if it is free]")
    domain: str = Field("localhost", description="domain of endpoint host names", pattern=r"^[a-z0-9.-]{1,120}$")
    storage: Literal["auto", "reflink", "btrfs", "plain"] = Field("auto", description="volume driver")
    store_url: str = Field("", description="PostgreSQL URL of the platform's own database; empty: SQLite in the home")
    postgres_versions: tuple[Annotated[int, Field(ge=14, le=18)], ...] = Field(
        (17,), description="major versions to download and offer; the first is the default", min_length=1
    )
    project_uids: tuple[int, int] = Field(
        # Above the ranges used by containers and /etc/subuid.
        (2_000_000_000, 2_000_060_000),
        description="as root: range of user ids for computes",
    )
    gateway_user: str = Field(
        "bough-gateway",
        description="as root: user that runs the gateway; created if it is missing",
        pattern=r"^[a-z_][a-z0-9_-]{0,31}$",
    )
    local_socket_group: str = Field(
        "",
        description="as root: group that may use the local socket of the gateway; empty: only root",
        pattern=r"^([a-z_][a-z0-9_-]{0,31})?$",
    )
    gateway_workers: int | None = Field(None, ge=1, le=256, description="gateway processes [default: one per core]")
    control_memory_bytes: int | None = Field(
        None,
        ge=MIN_MEMORY,
        description="memory limit of the control process, which is restarted above it "
        "[default: a quarter of the machine's memory, at least 1 GiB]",
    )
    gateway_worker_memory_bytes: int | None = Field(
        None,
        ge=MIN_MEMORY,
        description="memory limit of each gateway process "
        "[default: a quarter of the machine's memory for all of them, at least 512 MiB each]",
    )
    tls_certificate: Path | None = Field(
        None, description="TLS certificate of the gateway, with its chain (PEM); requires tls_key"
    )
    tls_key: Path | None = Field(None, description="private key of tls_certificate (PEM, without a passphrase)")
    hosts_file: Path | None = Field(
        Path("/etc/hosts"),
        description="hosts file for endpoint hosts under localhost that do not resolve otherwise; empty: none",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="minimum log level")
    log_file_bytes: int = Field(16 * 1024**2, ge=64 * 1024, description="size at which a log file is rotated")
    log_files_kept: int = Field(4, ge=1, description="number of rotated files kept per log")
    regions: tuple[Region, ...] = Field(DEFAULT_REGIONS, description="regions; the first is the default", min_length=1)
    plans: dict[str, Plan] = Field(DEFAULT_PLANS, description="plans: named limits; new accounts have the plan `free`")
    rate_per_minute: int = Field(700, ge=1, description="requests per minute and key")
    rate_per_second_and_route: int = Field(40, ge=1, description="requests per second, key and route")
    rate_per_minute_and_address: int = Field(
        300, ge=1, description="requests per minute and client address without a key"
    )
    body_limit: int = Field(1024 * 1024, ge=1024, description="maximum size of a request body in bytes")
    metrics_open: bool = Field(False, description="whether /metrics is readable without the token in keys/metrics")
    hold_seconds: float = Field(
        5.0, ge=0, description="seconds that a request waits for a conflicting operation before it gets 423"
    )
    operation_workers: int = Field(8, ge=1, description="operations that run at the same time")
    wake_seconds: float = Field(60.0, gt=0, description="seconds that a client waits for its compute to start")
    wakes_at_once: int = Field(16, ge=1, description="computes that start at the same time for waiting clients")
    wakes_per_second: float = Field(
        50.0, gt=0, description="maximum number of computes started per second for waiting clients"
    )
    suspend_timeout_default: int = Field(
        300,
        ge=1,
        description="seconds of inactivity after which a compute is suspended, unless its endpoint says otherwise",
    )
    recoverable_seconds: int = Field(
        7 * 86400, ge=0, description="seconds for which a deleted project can be recovered"
    )
    recoverable_branch_seconds: int = Field(
        86400, ge=0, description="seconds for which a deleted branch can be recovered; its data stays on disk that long"
    )
    history_base_bytes: int = Field(
        256 * 1024**2,
        ge=16 * 1024**2,
        description="bytes of WAL between two base backups, and so roughly the maximum that a restore replays",
    )
    history_alarm_bytes: int = Field(
        256 * 1024**2, ge=16 * 1024**2, description="bytes of unarchived WAL that raise an alarm"
    )
    archive_branch_days: float = Field(14, ge=0, description="age in days from which an unused branch is archived")
    archive_idle_hours: float = Field(24, ge=0, description="hours of inactivity after which such a branch is archived")
    sign_up: Literal["open", "invitation", "closed"] = Field(
        "invitation", description="who can create an account: everyone, invited users, or only the operator"
    )
    public_url: str = Field(
        "",
        description="public URL of this installation, for links in mails; https makes cookies secure "
        "[default: the address of the API]",
        pattern=r"^(https?://[A-Za-z0-9.:\[\]-]+)?$",
    )
    smtp_url: str = Field(
        "",
        description="mail server, smtp://user:password@host:587 or smtps://…:465; empty: mails are logged",
        pattern=r"^(smtps?://\S+)?$",
        repr=False,
    )
    mail_from: str = Field("bough@localhost", description="sender address of mails", pattern=r"^[^\s<>@]+@[^\s<>@]+$")
    session_days: float = Field(30, gt=0, le=400, description="lifetime of a browser session in days")
    invitation_days: float = Field(7, gt=0, le=400, description="lifetime of an invitation in days")
    audit_days: float = Field(400, gt=0, description="retention of the audit log in days")
    instant_per_hour: int = Field(
        1000, ge=0, description="maximum number of instant databases created per hour; 0: disabled"
    )
    instant_per_hour_and_address: int = Field(
        100, ge=1, description="maximum number of instant databases created per hour and client address"
    )
    instant_pool: int = Field(
        2, ge=0, le=64, description="instant databases kept ready for an hour after one was created; 0: none"
    )
    instant_at_once: int = Field(4, ge=1, description="instant databases created at the same time; other requests wait")
    instant_hours: float = Field(
        72, gt=0, le=24 * 365, description="hours after which an unclaimed instant database is deleted"
    )
    warm_pool: int = Field(2, ge=0, le=64, description="running computes kept ready for new projects; 0: none")
    warm_memory_share: float = Field(
        0.05, ge=0, le=0.5, description="maximum share of the machine's memory for the warm pool"
    )
    free_space_floor: int = Field(
        512 * 1024**2, ge=0, description="free bytes on the disk of the home below which nothing new is created"
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
                raise ValueError(f"{path}: give an absolute path")
        return self

    @field_validator("plans")
    @classmethod
    def _with_unclaimed(cls, value: dict[str, Plan]) -> dict[str, Plan]:
        """Settings files written for earlier versions lack this plan."""
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
        """The CA certificate for clients that verify the gateway."""
        return self.home / "ca.crt"

    @property
    def control_socket(self) -> Path:
        """The socket on which control serves the gateways."""
        return self.sockets / "plane" / "control.sock"

    @property
    def gateway_folder(self) -> Path:
        """Sockets and locks of the gateway processes."""
        return self.sockets / "gateway"

    @property
    def sockets(self) -> Path:
        """A short path, because Postgres does not accept socket paths over 107 bytes."""
        name = hashlib.sha256(str(self.home).encode()).hexdigest()[:8]
        if is_root():
            return Path("/run/bough") / name
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        if runtime and len(runtime) < 50 and os.access(runtime, os.W_OK):
            return Path(runtime) / "bough" / name
        return Path(tempfile.gettempdir()) / f"bough-{os.geteuid()}-{name}"

    def plan(self, name: str) -> Plan:
        """Return the plan; `free` when the settings no longer contain it."""
        return self.plans.get(name, self.plans["free"])

    def region(self, region_id: str) -> Region | None:
        return next((region for region in self.regions if region.id == region_id), None)


def load_settings(flags: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """Load the settings: flags override variables, variables the file, and the file the defaults."""
    environment = os.environ if environment is None else environment
    set_flags = {name: value for name, value in flags.items() if value is not None}
    variables = _from_environment(environment)
    home = Path(set_flags.get("home") or variables.get("home") or default_home()).expanduser().absolute()
    merged = {**_from_file(home / FILE_NAME), **variables, **set_flags, "home": home}
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise InvalidSetting(_describe(error)) from None


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
    """Lists and tables are TOML values; everything else is plain text."""
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


def _describe(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"The setting {where!r} is invalid: {message}." if where else f"Invalid settings: {message}."
