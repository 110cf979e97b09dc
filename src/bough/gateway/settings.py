"""The settings that the supervisor passes to a worker when it starts. They hold no secrets."""

import json
from dataclasses import dataclass
from pathlib import Path

from bough.errors import InvalidSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    listen_fds: tuple[int, ...]  # TCP listeners, for TLS
    local_socket_fd: int | None  # the local socket, shared by all workers
    domain: str
    control_socket: Path
    folder: Path  # where the workers find each other
    certificate_path: Path  # certificate and key
    project_uids: tuple[int, int] | None = None  # the user ids of computes; None: they run under ours
    private_networks: tuple[str, ...] | None = None  # None: the operator did not name any
    log_level: str = "info"

    @classmethod
    def parse(cls, text: str) -> "WorkerSettings":
        try:
            fields = json.loads(text)
            return cls(
                listen_fds=tuple(int(fd) for fd in fields["listen_fds"]),
                local_socket_fd=fields["local_socket_fd"],
                domain=fields["domain"],
                control_socket=Path(fields["control_socket"]),
                folder=Path(fields["folder"]),
                certificate_path=Path(fields["certificate_path"]),
                project_uids=tuple(fields["project_uids"]) if fields.get("project_uids") else None,
                private_networks=None
                if fields.get("private_networks") is None
                else tuple(map(str, fields["private_networks"])),
                log_level=fields["log_level"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidSetting(f"The gateway's settings cannot be read: {error!r}.") from error
