"""One run of the platform's processes, recorded in the log, on the terminal and in `supervisor.json`."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bough import __version__, clock, log
from bough.config import Settings, is_root
from bough.supervisor import api_listeners, gateway_listeners, gateway_user, memory_limits, ports, state
from bough.supervisor.drain import DrainingWorkers
from bough.supervisor.flags import Flags, to_arguments
from bough.supervisor.gateway_processes import GatewayProcesses
from bough.supervisor.handoff import SupervisorHandoff
from bough.supervisor.processes import ChildProcess, ProcessSpec, bough_command, gateway_worker_command
from bough.supervisor.supervisor import ShutdownMode, Supervisor

# What gateway workers inherit of the environment. It contains no setting, because a setting may hold a password.
_INHERITED_VARIABLES = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "TZ")


class SupervisedPlatform:
    """Binds the sockets, starts control and the gateway workers, and calls `report` with messages for the terminal."""

    def __init__(
        self,
        settings: Settings,
        flags: Flags,
        report: Callable[[str], None],
        handoff: SupervisorHandoff | None = None,
    ) -> None:
        self._settings = settings
        self._report = report
        self._handoff = handoff
        inherited = (*handoff.listener_fds, *handoff.api_listener_fds) if handoff else ()
        self._ports = ports.resolve(settings, gateway_listeners.read_ports(inherited))
        # Nothing is written to this pipe. It closes when the supervisor dies, even by SIGKILL, and children notice.
        self._alive_fd, self._supervisor_fd = (handoff.alive_fd, handoff.supervisor_fd) if handoff else os.pipe()
        self._listeners = gateway_listeners.open_listeners(
            settings,
            self._ports.gateway_port,
            handoff.listener_fds if handoff else (),
            handoff.local_socket_fd if handoff else None,
        )
        self._api_listeners = api_listeners.open_listeners(
            settings, self._ports.api_port, handoff.api_listener_fds if handoff else ()
        )
        self._control = self._make_control(flags)
        self._gateways: GatewayProcesses | None = None
        self._state = state.SupervisorState(
            pid=os.getpid(),
            phase="starting",
            listen=settings.listen,
            api_port=self._ports.api_port,
            gateway_port=self._ports.gateway_port,
            version=__version__,
            started_at=clock.now().isoformat(),
            api_inodes=api_listeners.read_inodes(self._api_listeners),
        )

    async def run(self, on_ready: Callable[[], None]) -> ShutdownMode:
        """Run the platform until a signal ends it; raise an error when it cannot start."""

        def handle_ready() -> None:
            self._record("ready", "platform_ready")
            on_ready()

        predecessors = DrainingWorkers(self._handoff.worker_pids if self._handoff else (), self._on_drained)
        workers = [self._make_worker(number) for number in range(gateway_user.count_workers(self._settings))]
        self._gateways = GatewayProcesses(workers, predecessors, self._ensure_gateway_folder)
        self._record("starting", "supervisor_starting")
        is_initialized = self._certificate.exists() and gateway_user.has_gateway_user(self._settings)
        supervisor = Supervisor(self._control, self._gateways, self._on_change, is_initialized=is_initialized)
        return await supervisor.run(handle_ready, self._on_stopping)

    def make_handoff(self) -> SupervisorHandoff:
        """Return what the program that replaces this one inherits."""
        return SupervisorHandoff(
            alive_fd=self._alive_fd,
            supervisor_fd=self._supervisor_fd,
            listener_fds=tuple(listener.fileno() for listener in self._listeners.tcp),
            local_socket_fd=self._listeners.local.fileno(),
            worker_pids=self._gateways.pids if self._gateways else (),
            api_listener_fds=tuple(listener.fileno() for listener in self._api_listeners),
        )

    def close(self) -> None:
        """Close all listening sockets."""
        self._listeners.close()
        for listener in self._api_listeners:
            listener.close()
        gateway_listeners.remove_local_socket(self._settings)

    @property
    def _certificate(self) -> Path:
        return self._settings.tls / "gateway.pem"

    def _make_control(self, flags: Flags) -> ChildProcess:
        resolved = {**flags, "api_port": self._ports.api_port, "gateway_port": self._ports.gateway_port}
        return ChildProcess(
            ProcessSpec(
                name="control",
                command=bough_command("serve", *to_arguments(resolved), *self._api_arguments()),
                alive_fd=self._alive_fd,
                log_file=self._settings.logs / "supervisor.log",
                inherited_fds=[listener.fileno() for listener in self._api_listeners],
                memory_limit=memory_limits.limit_for_control(self._settings),
            )
        )

    def _api_arguments(self) -> Iterator[str]:
        for listener in self._api_listeners:
            yield from ("--api-fd", str(listener.fileno()))

    def _make_worker(self, number: int) -> ChildProcess:
        tcp = [listener.fileno() for listener in self._listeners.tcp]
        local = self._listeners.local.fileno()
        private = self._settings.private_networks
        worker_settings = {
            "listen_fds": tcp,
            "local_socket_fd": local,
            "domain": self._settings.domain,
            "control_socket": str(self._settings.control_socket),
            "folder": str(self._settings.gateway_folder),
            "certificate_path": str(self._certificate),
            "project_uids": self._settings.project_uids if is_root() else None,
            "private_networks": None if private is None else [str(each) for each in private],
            "log_level": self._settings.log_level,
        }
        user = self._settings.gateway_user if is_root() else None
        return ChildProcess(
            ProcessSpec(
                name=f"gateway worker {number + 1}",
                command=(*gateway_worker_command(user), "--settings", json.dumps(worker_settings)),
                alive_fd=self._alive_fd,
                log_file=self._settings.gateway_log,
                inherited_fds=(*tcp, local),
                environment={name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
                memory_limit=memory_limits.limit_for_worker(self._settings),
            )
        )

    def _ensure_gateway_folder(self) -> None:
        """Run after control has added the gateway's user."""
        gateway_user.ensure_gateway_folder(self._settings)

    def _on_change(self, message: str) -> None:
        self._record("ready", "process_changed", message=message)
        self._print(f"{clock.now():%Y-%m-%d %H:%M:%S} {message}")

    def _on_drained(self, message: str) -> None:
        self._record(self._state.phase, "worker_drained", message=message)

    def _on_stopping(self, mode: ShutdownMode) -> None:
        self._record("stopping", "supervisor_stopping", mode=mode.value)
        if mode is ShutdownMode.DOWN and os.isatty(2):
            self._print("\nStopping the platform and its computes. Press Ctrl-C again to stop without waiting.")

    def _record(self, phase: str, event: str, **fields: str) -> None:
        pid, starts = self._control.pid, self._control.start_count
        self._state = replace(
            self._state,
            phase=phase,
            control_pid=pid,
            control_starts=starts,
            workers=tuple({"pid": worker.pid, "starts": worker.start_count} for worker in self._current_workers()),
            draining=len(self._gateways.draining_pids) if self._gateways else 0,
        )
        with suppress(OSError):  # a full disk must not stop the platform
            state.write(self._settings, self._state)
            log.get_logger().info(event, control_pid=pid, **fields)

    def _current_workers(self) -> tuple[ChildProcess, ...]:
        return tuple(self._gateways.workers) if self._gateways else ()

    def _print(self, text: str) -> None:
        with suppress(OSError):  # the terminal may be gone
            self._report(text)
