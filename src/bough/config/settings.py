"""Every setting with its default, its valid values and its description."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, IPvAnyNetwork, field_validator, model_validator

from bough.config.home import HomePaths, default_cache
from bough.config.plans import DEFAULT_PLANS, Plan, QuietHours, Weekdays
from bough.config.regions import DEFAULT_REGIONS, Region

DEFAULT_API_PORT = 8432
MIN_MEMORY = 128 * 1024**2  # bytes; one of the platform's processes uses about half of it right after its start

Port = Annotated[int, Field(ge=1, le=65535)]


class Settings(HomePaths, frozen=True, extra="forbid"):
    cache: Path = Field(default_factory=default_cache, description="folder with the Postgres binaries")
    listen: str = Field("127.0.0.1", description="address that the API and the gateway listen on")
    api_port: Port | None = Field(None, description="port of the API [default: 8432, or a free one]")
    trusted_proxies: tuple[IPvAnyNetwork, ...] = Field(
        (),
        description="addresses or networks of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto headers "
        "are trusted",
    )
    private_networks: tuple[IPvAnyNetwork, ...] | None = Field(
        None,
        description="networks that block_public_connections lets in and block_vpc_connections rejects, and whose "
        "traffic is counted apart [default: loopback, private and link-local addresses, not counted apart]",
    )
    gateway_port: Port | None = Field(None, description="port for Postgres clients [default: 5432, or a free one]")
    domain: str = Field("localhost", description="domain of the endpoints' host names", pattern=r"^[a-z0-9.-]{1,120}$")
    storage: Literal["auto", "reflink", "btrfs", "plain"] = Field("auto", description="how volumes are cloned")
    store_url: str = Field("", description="PostgreSQL URL of the platform's own database; empty: SQLite in the home")
    postgres_versions: tuple[Annotated[int, Field(ge=14, le=18)], ...] = Field(
        (17,), description="Postgres major versions to install; the first is the default", min_length=1
    )
    debian_mirror: str = Field(
        "",
        description="address of the Debian mirror that Postgres is downloaded from, and of its security archive if it "
        "has another address; empty: those in apt's configuration",
        pattern=r"^((https?|file):/\S+([ ,]+(https?|file):/\S+)*)?$",
    )
    project_uids: tuple[int, int] = Field(
        # Above the ranges that containers and /etc/subuid take from.
        (2_000_000_000, 2_000_060_000),
        description="as root: range of user ids that computes run as",
    )
    gateway_user: str = Field(
        "bough-gateway",
        description="as root: user that the gateway runs as; created if it is missing",
        pattern=r"^[a-z_][a-z0-9_-]{0,31}$",
    )
    local_socket_group: str = Field(
        "",
        description="as root: group that may connect to the gateway's local socket; empty: only root",
        pattern=r"^([a-z_][a-z0-9_-]{0,31})?$",
    )
    gateway_workers: int | None = Field(
        None, ge=1, le=256, description="number of gateway processes [default: one per CPU core]"
    )
    control_memory_bytes: int | None = Field(
        None,
        ge=MIN_MEMORY,
        description="memory limit of the control process, which is restarted when it exceeds it "
        "[default: a quarter of the machine's memory, at least 1 GiB]",
    )
    gateway_worker_memory_bytes: int | None = Field(
        None,
        ge=MIN_MEMORY,
        description="memory limit of each gateway process [default: a quarter of the machine's memory for all, "
        "at least 512 MiB each]",
    )
    tls_certificate: Path | None = Field(
        None, description="your own certificate chain for Postgres clients (PEM file); requires tls_key"
    )
    tls_key: Path | None = Field(None, description="private key of tls_certificate (PEM file without a passphrase)")
    hosts_file: Path | None = Field(
        Path("/etc/hosts"),
        description="hosts file for endpoint names under localhost if they do not resolve otherwise; empty: none",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="minimum level of log messages")
    log_file_bytes: int = Field(16 * 1024**2, ge=64 * 1024, description="size in bytes at which a log file is rotated")
    log_files_kept: int = Field(4, ge=1, description="number of rotated files to keep per log")
    audit_log_files_kept: int = Field(
        16, ge=1, description="number of rotated files to keep per log of audited statements (audit_log_level)"
    )
    regions: tuple[Region, ...] = Field(DEFAULT_REGIONS, description="regions; the first is the default", min_length=1)
    plans: dict[str, Plan] = Field(DEFAULT_PLANS, description="named sets of limits; new accounts have the plan `free`")
    rate_per_minute: int = Field(700, ge=1, description="API requests per minute per key")
    rate_per_second_and_route: int = Field(40, ge=1, description="API requests per second per key and route")
    rate_per_minute_and_address: int = Field(300, ge=1, description="API requests per minute per address without a key")
    body_limit: int = Field(1024 * 1024, ge=1024, description="maximum size of a request body in bytes")
    metrics_disk_bytes: int = Field(
        256 * 1024**2,
        ge=0,
        description="bytes in the store for metrics over time; the oldest are deleted first; 0: nothing is sampled",
    )
    metrics_open: bool = Field(False, description="whether /metrics is readable without the token in keys/metrics")
    hold_seconds: float = Field(
        5.0, ge=0, description="seconds that a request waits for a conflicting operation before it fails with 423"
    )
    cpu_limits: bool = Field(
        True, description="whether a compute can use no more CPU than its maximum size, even if the machine is idle"
    )
    operation_workers: int = Field(8, ge=1, description="maximum number of concurrent operations")
    wake_seconds: float = Field(60.0, gt=0, description="seconds that a client waits for its compute to start")
    wakes_at_once: int = Field(16, ge=1, description="maximum number of computes that start at the same time")
    wakes_per_second: float = Field(50.0, gt=0, description="maximum number of computes started per second")
    suspend_timeout_default: int = Field(
        300,
        ge=1,
        description="seconds of inactivity after which a compute is suspended, for endpoints whose timeout is 0",
    )
    recoverable_seconds: int = Field(
        7 * 86400, ge=0, description="seconds during which a deleted project can be recovered"
    )
    recoverable_branch_seconds: int = Field(
        86400, ge=0, description="seconds during which a deleted branch can be recovered; its data stays on disk"
    )
    history_base_bytes: int = Field(
        256 * 1024**2,
        ge=16 * 1024**2,
        description="bytes of WAL between two bases; a restore replays about this much at most",
    )
    history_alarm_bytes: int = Field(
        256 * 1024**2, ge=16 * 1024**2, description="bytes of unarchived WAL of a branch that raise an alarm"
    )
    archive_branch_days: float = Field(14, ge=0, description="age in days at which an unused branch is archived")
    archive_idle_hours: float = Field(
        24, ge=0, description="hours without use after which a branch of that age is archived"
    )
    sign_up: Literal["open", "invitation", "closed"] = Field(
        "invitation", description="who can create an account: anyone, invited people, or only the operator"
    )
    public_url: str = Field(
        "",
        description="public URL of this installation, used in e-mails; with https, cookies are secure "
        "[default: the address of the API]",
        pattern=r"^(https?://[A-Za-z0-9.:\[\]-]+)?$",
    )
    smtp_url: str = Field(
        "",
        description="mail server, smtp://user:password@host:587 or smtps://…:465; empty: e-mails are logged",
        pattern=r"^(smtps?://\S+)?$",
        repr=False,
    )
    mail_from: str = Field("bough@localhost", description="sender address of e-mails", pattern=r"^[^\s<>@]+@[^\s<>@]+$")
    session_days: float = Field(30, gt=0, le=400, description="days after which a user must sign in again")
    invitation_days: float = Field(7, gt=0, le=400, description="days during which an invitation can be accepted")
    audit_days: float = Field(400, gt=0, description="days for which the audit log is kept")
    instant_per_hour: int = Field(1000, ge=0, description="maximum number of instant databases per hour; 0: disabled")
    instant_per_hour_and_address: int = Field(
        100, ge=1, description="maximum number of instant databases per hour per client address"
    )
    instant_pool: int = Field(
        2, ge=0, le=64, description="instant databases kept ready for an hour after the last request; 0: none"
    )
    instant_at_once: int = Field(
        4, ge=1, description="instant databases that are created at the same time; further requests wait"
    )
    instant_hours: float = Field(
        72, gt=0, le=24 * 365, description="hours after which an unclaimed instant database is deleted"
    )
    warm_pool: int = Field(2, ge=0, le=64, description="computes kept running for new projects; 0: none")
    warm_memory_share: float = Field(
        0.05, ge=0, le=0.5, description="maximum share of the machine's memory that the warm pool uses"
    )
    quiet_hours: QuietHours = Field(
        (0, 6), description="hours of the day, UTC, in which new projects get their maintenance window"
    )
    quiet_weekdays: Weekdays = Field(
        (1, 2, 3, 4, 5, 6, 7), description="days on which new projects get their maintenance window; 1 is Monday"
    )
    maintenance_notice_hours: float = Field(
        24, ge=0, description="hours between the announcement of a restart and the maintenance window it happens in"
    )
    maintenance_restarts_at_once: int = Field(
        1, ge=1, description="maximum number of computes that are restarted at the same time in maintenance windows"
    )
    maintenance_forces_security: bool = Field(
        False,
        description="whether computes with known vulnerabilities are restarted at the next full hour after they missed "
        "two maintenance windows",
    )
    postgres_auto_update: bool = Field(
        False, description="whether the newest minor versions of Postgres are downloaded automatically"
    )
    postgres_auto_update_hours: float = Field(
        24, ge=1, description="hours between two automatic searches for newer minor versions"
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
    def _add_unclaimed(cls, value: dict[str, Plan]) -> dict[str, Plan]:
        """Add the plan that files written for earlier versions lack."""
        return {"unclaimed": DEFAULT_PLANS["unclaimed"], **value}

    @field_validator("hosts_file", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return None if value == "" else value

    def plan(self, name: str) -> Plan:
        """Return the plan with this name, or `free` if the settings no longer contain it."""
        return self.plans.get(name, self.plans["free"])

    def region(self, region_id: str) -> Region | None:
        return next((region for region in self.regions if region.id == region_id), None)
