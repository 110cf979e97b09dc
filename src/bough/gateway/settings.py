"""What a worker is told at its start; no secret among it."""

import json
from dataclasses import dataclass
from pathlib import Path

from bough.errors import InvalidSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    listen_fds: tuple[int, ...]  # listeners for TLS
    local_socket_fd: int | None  # the local socket, shared by all workers
    domain: str
    control_socket: Path  # control's socket
    folder: Path  # where workers find one another
    certificate_path: Path  # certificate and key
    project_uids: tuple[int, int] | None = None  # of computes; None: they run under our own
    log_level: str = "info"

    @classmethod
    def parse(cls, text: str) -> "WorkerSettings":
        try:
            given = json.loads(text)
            return cls(
                listen_fds=tuple(int(fd) for fd in given["listen_fds"]),
                local_socket_fd=given["door_fd"],
                domain=given["domain"],
                control_socket=Path(given["plane"]),
                folder=Path(given["folder"]),
                certificate_path=Path(given["tls"]),
                project_uids=tuple(given["project_uids"]) if given.get("project_uids") else None,
                log_level=given["log_level"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidSetting(f"The gateway's settings cannot be read: {error!r}.") from error
