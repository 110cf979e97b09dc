"""Start computes with the preloaded libraries that their build has, or without any if they do not start with them."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from bough import log
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.installs.installs import Install
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import VolumeId
from bough.postgres import preload_libraries

Start = Callable[[ComputeSpec], Awaitable[Readiness]]

logger = log.get_logger(component="engine")


class Preloading:
    def __init__(self, running: RunningComputes) -> None:
        self._running = running
        self._failed: dict[VolumeId, tuple[str, str]] = {}  # install and libraries with which a compute did not start

    async def start(self, spec: ComputeSpec, install: Install, start: Start) -> Readiness:
        """Call `start` with the spec, restricted if necessary."""
        usable = _restrict_to_existing(spec, install)
        requested = usable.settings.get(preload_libraries.PARAMETER)
        if requested is None:
            return await start(usable)
        if self._failed.get(spec.volume_id) != (install.id, requested):
            try:
                return await start(usable)
            except EngineError as error:
                if await self._running.find_sockets(spec.endpoint_id) is not None:
                    raise  # it runs with them
                readiness = await self._start_without(usable, start, error)
                logger.warning(
                    "preload_libraries_dropped",
                    endpoint_id=spec.endpoint_id,
                    libraries=requested,
                    reason=error.public_message,
                )
                self._failed[spec.volume_id] = (install.id, requested)
                return readiness
        return await start(_without_libraries(usable))

    async def _start_without(self, spec: ComputeSpec, start: Start, error: EngineError) -> Readiness:
        """Raise the error of the first attempt if the libraries are not its cause."""
        try:
            return await start(_without_libraries(spec))
        except EngineError:
            raise error from None


def _restrict_to_existing(spec: ComputeSpec, install: Install) -> ComputeSpec:
    requested = preload_libraries.parse(spec.settings)
    if not requested:
        return spec
    existing = [name for name in requested if (install.libraries / f"{name}.so").is_file()]
    return replace(spec, settings=preload_libraries.restrict(spec.settings, existing))


def _without_libraries(spec: ComputeSpec) -> ComputeSpec:
    return replace(spec, settings=preload_libraries.restrict(spec.settings, ()))
