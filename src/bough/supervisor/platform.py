"""One run of the supervisor, told to the log, to the terminal and to `supervisor.json`."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from bough import __version__, clock, log
from bough.cli import options, output
from bough.config import Settings, is_root
from bough.supervisor import api_listeners, listeners, memory_limits, ports, state
from bough.supervisor.drain import DrainingWorkers
from bough.supervisor.gateway_processes import GatewayProcesses
from bough.supervisor.handoff import SupervisorHandoff
from bough.supervisor.processes import ChildProcess, ProcessSpec, bough_command, gateway_worker_command
from bough.supervisor.supervisor import ShutdownMode, Supervisor

_INHERITED_VARIABLES = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "TZ")  # no setting: one of them may hold a password


class SupervisedPlatform:
    def __init__(self, settings: Settings, flags: options.Flags, handoff: SupervisorHandoff | None = None) -> None:
        self._settings = settings
        self._handoff = handoff
        self._ports = ports.resolve(
            settings, listeners.read_ports((*handoff.listeners, *handoff.api_listeners)) if handoff else ()
        )
        # Nobody writes to this pipe. Its other end closes with us, also by SIGKILL, and children notice.
        self._alive_end, self._our_end = (handoff.alive_end, handoff.our_end) if handoff else os.pipe()
        self._listeners = listeners.open_listeners(
            settings, self._ports.gateway_port, handoff.listeners if handoff else (), handoff.door if handoff else None
        )
        self._api = api_listeners.open_listeners(
            settings, self._ports.api_port, handoff.api_listeners if handoff else ()
        )
        resolved = {**flags, "api_port": self._ports.api_port, "gateway_port": self._ports.gateway_port}
        self._control = ChildProcess(
            ProcessSpec(
                name="control",
                command=bough_command("serve", *options.to_arguments(resolved), *self._api_arguments()),
                alive_fd=self._alive_end,
                log_file=settings.logs / "supervisor.log",
                inherited_fds=[listener.fileno() for listener in self._api],
                memory_limit=memory_limits.limit_for_control(settings),
            )
        )
        self._gateways: GatewayProcesses | None = None
        self._tls = settings.tls / "gateway.pem"
        self._state = state.SupervisorState(
            pid=os.getpid(),
            phase="starting",
            listen=settings.listen,
            api_port=self._ports.api_port,
            gateway_port=self._ports.gateway_port,
            version=__version__,
            started_at=clock.now().isoformat(),
            api_inodes=api_listeners.read_inodes(self._api),
        )

    async def run(self, on_ready: Callable[[], None]) -> ShutdownMode:
        """Run the platform; raises its sentence when it cannot start."""

        def is_ready() -> None:
            self._record("ready", "the platform is ready")
            on_ready()

        before = DrainingWorkers(self._handoff.workers if self._handoff else (), self._on_drained)
        workers = [self._worker(number) for number in range(listeners.count_workers(self._settings))]
        self._gateways = GatewayProcesses(workers, before, self._ensure_gateway_folder)
        self._record("starting", "the supervisor starts")
        all_is_there = self._tls.exists() and listeners.has_gateway_user(self._settings)
        supervisor = Supervisor(self._control, self._gateways, self._on_change, is_initialized=all_is_there)
        return await supervisor.run(is_ready, self._on_stopping)

    def make_handoff(self) -> SupervisorHandoff:
        """For the program that replaces this one."""
        return SupervisorHandoff(
            alive_end=self._alive_end,
            our_end=self._our_end,
            listeners=tuple(listener.fileno() for listener in self._listeners.tcp),
            door=self._listeners.local.fileno(),
            workers=self._gateways.pids if self._gateways else (),
            api_listeners=tuple(listener.fileno() for listener in self._api),
        )

    def close(self) -> None:
        """Nobody is awaited any more."""
        self._listeners.close()
        for listener in self._api:
            listener.close()
        listeners.remove_local_socket(self._settings)

    def _api_arguments(self) -> Iterator[str]:
        for listener in self._api:
            yield from ("--api-fd", str(listener.fileno()))

    def _worker(self, number: int) -> ChildProcess:
        tcp = [listener.fileno() for listener in self._listeners.tcp]
        door = self._listeners.local.fileno()
        wishes = {
            "listen_fds": tcp,
            "local_socket_fd": door,
            "domain": self._settings.domain,
            "control_socket": str(self._settings.control_socket),
            "folder": str(self._settings.gateway_folder),
            "certificate_path": str(self._tls),
            "project_uids": self._settings.project_uids if is_root() else None,
            "log_level": self._settings.log_level,
        }
        user = self._settings.gateway_user if is_root() else None
        return ChildProcess(
            ProcessSpec(
                name=f"gateway worker {number + 1}",
                command=(*gateway_worker_command(user), "--settings", json.dumps(wishes)),
                alive_fd=self._alive_end,
                log_file=self._settings.gateway_log,
                inherited_fds=(*tcp, door),
                environment={name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ},
                memory_limit=memory_limits.limit_for_worker(self._settings),
            )
        )

    def _ensure_gateway_folder(self) -> None:
        """Control has added the gateway's user by now."""
        listeners.ensure_gateway_folder(self._settings)

    def _on_change(self, sentence: str) -> None:
        self._record("ready", sentence)
        self._report(f"{clock.now():%Y-%m-%d %H:%M:%S} {sentence}")

    def _on_drained(self, sentence: str) -> None:
        self._record(self._state.phase, sentence)

    def _on_stopping(self, ending: ShutdownMode) -> None:
        self._record("stopping", f"the supervisor stops: {ending.value}")
        if ending is ShutdownMode.DOWN and os.isatty(2):
            self._report("\nStopping the platform and its computes. Ctrl-C again does not wait for them.")

    def _record(self, phase: str, sentence: str) -> None:
        pid, starts = self._control.pid, self._control.start_count
        self._state = replace(
            self._state,
            phase=phase,
            control_pid=pid,
            control_starts=starts,
            workers=tuple({"pid": one.pid, "starts": one.start_count} for one in self._current_workers()),
            draining=len(self._gateways.draining_pids) if self._gateways else 0,
        )
        with suppress(OSError):  # a full disk must not end what runs
            state.write(self._settings, self._state)
            log.get_logger().info(sentence, control_pid=pid)

    def _current_workers(self) -> tuple[ChildProcess, ...]:
        return tuple(self._gateways.workers) if self._gateways else ()

    def _report(self, text: str) -> None:
        with suppress(OSError):  # the terminal may be gone
            output.print_note(text)
