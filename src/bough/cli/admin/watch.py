"""One run of the supervisor, told to the log, to the terminal and to `supervisor.json`."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from bough import __version__, clock, log
from bough.cli import output
from bough.cli.admin import api_listener, listeners, memory_limits, options, ports, state
from bough.cli.admin.child import Child, Launch, gateway_command, own_command
from bough.cli.admin.drain import Drain
from bough.cli.admin.gateways import Gateways
from bough.cli.admin.inheritance import Inheritance
from bough.cli.admin.supervisor import Ending, Supervisor
from bough.config import Settings, running_as_root

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "TZ")  # no setting: one of them may hold a password


class Watch:
    def __init__(self, settings: Settings, flags: options.Flags, given: Inheritance | None = None) -> None:
        self._settings = settings
        self._given = given
        self._ports = ports.resolve(
            settings, listeners.ports_of((*given.listeners, *given.api_listeners)) if given else ()
        )
        # Nobody writes to this pipe. Its other end closes with us, also by SIGKILL, and children notice.
        self._alive_end, self._our_end = (given.alive_end, given.our_end) if given else os.pipe()
        self._listeners = listeners.opened(
            settings, self._ports.gateway_port, given.listeners if given else (), given.door if given else None
        )
        self._api = api_listener.opened(settings, self._ports.api_port, given.api_listeners if given else ())
        resolved = {**flags, "api_port": self._ports.api_port, "gateway_port": self._ports.gateway_port}
        self._control = Child(
            Launch(
                name="control",
                command=own_command("serve", *options.as_arguments(resolved), *self._api_arguments()),
                alive_fd=self._alive_end,
                log_file=settings.logs / "supervisor.log",
                descriptors=[listener.fileno() for listener in self._api],
                memory=memory_limits.of_control(settings),
            )
        )
        self._gateways: Gateways | None = None
        self._tls = settings.tls / "gateway.pem"
        self._state = state.State(
            pid=os.getpid(),
            phase="starting",
            listen=settings.listen,
            api_port=self._ports.api_port,
            gateway_port=self._ports.gateway_port,
            version=__version__,
            started_at=clock.now().isoformat(),
            api_inodes=api_listener.inodes(self._api),
        )

    async def until_ended(self, ready: Callable[[], None]) -> Ending:
        """Run the platform; raises its sentence when it cannot start."""

        def is_ready() -> None:
            self._tell("ready", "the platform is ready")
            ready()

        before = Drain(self._given.workers if self._given else (), self._drained)
        workers = [self._worker(number) for number in range(listeners.workers(self._settings))]
        self._gateways = Gateways(workers, before, self._make_way)
        self._tell("starting", "the supervisor starts")
        all_is_there = self._tls.exists() and listeners.gateway_user_exists(self._settings)
        supervisor = Supervisor(self._control, self._gateways, self._changed, all_is_there=all_is_there)
        return await supervisor.run(is_ready, self._stopping)

    def inheritance(self) -> Inheritance:
        """For the program that replaces this one."""
        return Inheritance(
            alive_end=self._alive_end,
            our_end=self._our_end,
            listeners=tuple(listener.fileno() for listener in self._listeners.tcp),
            door=self._listeners.door.fileno(),
            workers=self._gateways.pids if self._gateways else (),
            api_listeners=tuple(listener.fileno() for listener in self._api),
        )

    def close(self) -> None:
        """Nobody is awaited any more."""
        self._listeners.close()
        for listener in self._api:
            listener.close()
        listeners.remove_door(self._settings)

    def _api_arguments(self) -> Iterator[str]:
        for listener in self._api:
            yield from ("--api-fd", str(listener.fileno()))

    def _worker(self, number: int) -> Child:
        tcp = [listener.fileno() for listener in self._listeners.tcp]
        door = self._listeners.door.fileno()
        wishes = {
            "listen_fds": tcp,
            "door_fd": door,
            "domain": self._settings.domain,
            "plane": str(self._settings.plane),
            "folder": str(self._settings.gateway_folder),
            "tls": str(self._tls),
            "project_uids": self._settings.project_uids if running_as_root() else None,
            "log_level": self._settings.log_level,
        }
        user = self._settings.gateway_user if running_as_root() else None
        return Child(
            Launch(
                name=f"gateway worker {number + 1}",
                command=(*gateway_command(user), "--settings", json.dumps(wishes)),
                alive_fd=self._alive_end,
                log_file=self._settings.gateway_log,
                descriptors=(*tcp, door),
                environment={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                memory=memory_limits.of_worker(self._settings),
            )
        )

    def _make_way(self) -> None:
        """Control has added the gateway's user by now."""
        listeners.ensure_gateway_folder(self._settings)

    def _changed(self, sentence: str) -> None:
        self._tell("ready", sentence)
        self._remark(f"{clock.now():%Y-%m-%d %H:%M:%S} {sentence}")

    def _drained(self, sentence: str) -> None:
        self._tell(self._state.phase, sentence)

    def _stopping(self, ending: Ending) -> None:
        self._tell("stopping", f"the supervisor stops: {ending.value}")
        if ending is Ending.DOWN and os.isatty(2):
            self._remark("\nStopping the platform and its computes. Ctrl-C again does not wait for them.")

    def _tell(self, phase: str, sentence: str) -> None:
        pid, starts = self._control.pid, self._control.starts
        self._state = replace(
            self._state,
            phase=phase,
            control_pid=pid,
            control_starts=starts,
            workers=tuple({"pid": one.pid, "starts": one.starts} for one in self._workers_now()),
            draining=len(self._gateways.draining) if self._gateways else 0,
        )
        with suppress(OSError):  # a full disk must not end what runs
            state.write(self._settings, self._state)
            log.get().info(sentence, control_pid=pid)

    def _workers_now(self) -> tuple[Child, ...]:
        return tuple(self._gateways.workers) if self._gateways else ()

    def _remark(self, text: str) -> None:
        with suppress(OSError):  # the terminal may be gone
            output.note(text)
