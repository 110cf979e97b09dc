"""One run of the supervisor, told to the log, to the terminal and to `supervisor.json`."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from bough import __version__, clock, log
from bough.cli import output
from bough.cli.admin import options, ports, state
from bough.cli.admin.child import Child
from bough.cli.admin.supervisor import Ending, Supervisor
from bough.config import Settings


class Watch:
    def __init__(self, settings: Settings, flags: options.Flags) -> None:
        self._settings = settings
        self._ports = ports.resolve(settings)
        resolved = {**flags, "api_port": self._ports.api_port, "gateway_port": self._ports.gateway_port}
        # Nobody writes to this pipe. Its other end closes with us, also by SIGKILL, and children notice.
        self._alive_end, self._our_end = os.pipe()
        self._control = Child(
            "control",
            ("serve", *options.as_arguments(resolved)),
            alive_fd=self._alive_end,
            log_file=settings.logs / "supervisor.log",
        )
        self._state = state.State(
            pid=os.getpid(),
            phase="starting",
            listen=settings.listen,
            api_port=self._ports.api_port,
            gateway_port=self._ports.gateway_port,
            version=__version__,
            started_at=clock.now().isoformat(),
        )

    async def until_ended(self, ready: Callable[[], None]) -> Ending:
        """Run the platform; raises its sentence when it cannot start."""

        def is_ready() -> None:
            self._tell("ready", "the platform is ready")
            ready()

        self._tell("starting", "the supervisor starts")
        with ports.reserve(self._settings.listen, self._ports.gateway_port):
            return await Supervisor([self._control], self._changed).run(is_ready, self._stopping)

    def _changed(self, sentence: str) -> None:
        self._tell("ready", sentence)
        self._remark(f"{clock.now():%Y-%m-%d %H:%M:%S} {sentence}")

    def _stopping(self, ending: Ending) -> None:
        self._tell("stopping", f"the supervisor stops: {ending.value}")
        if ending is Ending.DOWN and os.isatty(2):
            self._remark("\nStopping the platform and its computes. Ctrl-C again does not wait for them.")

    def _tell(self, phase: str, sentence: str) -> None:
        pid, starts = self._control.pid, self._control.starts
        self._state = replace(self._state, phase=phase, control_pid=pid, control_starts=starts)
        with suppress(OSError):  # a full disk must not end what runs
            state.write(self._settings, self._state)
            log.get().info(sentence, control_pid=pid)

    def _remark(self, text: str) -> None:
        with suppress(OSError):  # the terminal may be gone
            output.note(text)
