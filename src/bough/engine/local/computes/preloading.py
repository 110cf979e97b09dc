"""Start computes with the preloaded libraries that their build has, or with fewer if they do not start with them."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace

from bough import log
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.installs.installs import Install
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import VolumeId
from bough.postgres import preload_libraries

Start = Callable[[ComputeSpec], Awaitable[Readiness]]
Libraries = tuple[str, ...]

logger = log.get_logger(component="engine")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """A compute that started only with some of its libraries."""

    install_id: str
    requested: Libraries
    usable: Libraries


class Preloading:
    def __init__(self, running: RunningComputes) -> None:
        self._running = running
        self._failures: dict[VolumeId, _Failure] = {}

    async def start(self, spec: ComputeSpec, install: Install, start: Start) -> Readiness:
        """Call `start` with the spec, restricted if necessary."""
        existing = restrict_to_existing(spec, install)
        requested = preload_libraries.parse(existing.settings)
        failure = self._failures.get(spec.volume_id)
        if failure is not None and (failure.install_id, failure.requested) == (install.id, requested):
            return await start(_restrict(existing, failure.usable))
        try:
            return await start(existing)
        except EngineError as error:
            if not _may_be_cause(requested, error) or await self._running.find_sockets(spec.endpoint_id) is not None:
                raise
            readiness, usable = await _start_with_fewer(existing, requested, start, error)
            logger.warning(
                "preload_libraries_dropped",
                endpoint_id=spec.endpoint_id,
                libraries=",".join(requested),
                kept=",".join(usable),
                reason=error.public_message,
            )
            self._failures[spec.volume_id] = _Failure(install_id=install.id, requested=requested, usable=usable)
            return readiness


def restrict_to_existing(spec: ComputeSpec, install: Install) -> ComputeSpec:
    return _restrict(spec, tuple(name for name in preload_libraries.parse(spec.settings) if install.has_library(name)))


def _restrict(spec: ComputeSpec, libraries: Libraries) -> ComputeSpec:
    if preload_libraries.parse(spec.settings) == libraries:
        return spec
    return replace(spec, settings=preload_libraries.restrict(spec.settings, libraries))


def _may_be_cause(libraries: Libraries, error: EngineError) -> bool:
    """Every compute has the default libraries and starts with them, so other causes of a failed start are likelier."""
    return any(name not in preload_libraries.DEFAULTS or name in error.public_message for name in libraries)


async def _start_with_fewer(
    spec: ComputeSpec, requested: Libraries, start: Start, error: EngineError
) -> tuple[Readiness, Libraries]:
    """Raise the error of the first attempt if the libraries are not its cause."""
    for libraries in _list_fallbacks(requested):
        try:
            return await start(_restrict(spec, libraries)), libraries
        except EngineError:
            continue
    raise error


def _list_fallbacks(requested: Libraries) -> Iterator[Libraries]:
    """The default libraries alone, then none."""
    defaults = tuple(name for name in requested if name in preload_libraries.DEFAULTS)
    if defaults not in ((), requested):
        yield defaults
    yield ()
