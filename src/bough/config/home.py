"""The home of an installation: its default place, and the paths of the files in it."""

import hashlib
import os
import tempfile
from pathlib import Path

from pydantic import BaseModel, Field


def is_root() -> bool:
    return os.geteuid() == 0


def default_home() -> Path:
    return Path("/var/lib/bough") if is_root() else Path(".bough").resolve()


def default_cache() -> Path:
    if is_root():
        return Path("/var/cache/bough")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "bough"


class HomePaths(BaseModel, frozen=True, extra="forbid"):
    """The home, and the paths that follow from it."""

    home: Path = Field(default_factory=default_home, description="folder with all data of this installation")

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
    def compute_audit(self) -> Path:
        """The folders in which audited computes write their logs."""
        return self.home / "audit"

    @property
    def store_file(self) -> Path:
        return self.home / "store.db"

    @property
    def tls(self) -> Path:
        return self.home / "tls"

    @property
    def ca_file(self) -> Path:
        """The CA certificate with which clients verify the gateway's certificate."""
        return self.home / "ca.crt"

    @property
    def control_socket(self) -> Path:
        """The socket on which the control process serves the gateway."""
        return self.sockets / "plane" / "control.sock"

    @property
    def gateway_folder(self) -> Path:
        """The folder of the gateway workers' locks and sockets, where other processes find them."""
        return self.sockets / "gateway"

    @property
    def sockets(self) -> Path:
        """A folder with a short path, because Postgres rejects socket paths over 107 bytes."""
        name = hashlib.sha256(str(self.home).encode()).hexdigest()[:8]
        if is_root():
            return Path("/run/bough") / name
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        if runtime and len(runtime) < 50 and os.access(runtime, os.W_OK):
            return Path(runtime) / "bough" / name
        return Path(tempfile.gettempdir()) / f"bough-{os.geteuid()}-{name}"
