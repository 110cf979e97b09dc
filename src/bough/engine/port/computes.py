"""The port to start, stop and resize computes."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bough.domain.gateway_protocol import ComputeAddress
from bough.engine.spec import ComputeSpec
from bough.ids import EndpointId, VolumeId


class Readiness(StrEnum):
    READY = "ready"  # accepts connections and has the roles and databases of the spec
    STARTING = "starting"  # started but still recovering: call again


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """The resource usage of a running compute. Cheap to read."""

    cu: float | None  # current size; None: the maximum size
    cpu_seconds: float  # of its processes since the start
    memory_bytes: int  # that the kernel cannot reclaim


class ComputeEngine(Protocol):
    """Start, stop and resize computes."""

    async def ensure_running(self, spec: ComputeSpec) -> Readiness:
        """Run a compute on the volume with exactly these settings. Restart it if they require that.

        The volume of a read replica is created if it is missing, and created again if it can no longer follow.
        """

    async def ensure_suspended(self, endpoint: EndpointId) -> None:
        """Stop the endpoint's compute. Everything committed is on disk afterwards."""

    async def resize(self, endpoint: EndpointId, cu: float) -> None:
        """Resize a running compute without a restart. Do nothing when none runs."""

    async def find_address(self, endpoint: EndpointId) -> ComputeAddress | None:
        """Return where the endpoint's compute listens, or None when it does not accept connections."""

    async def is_busy(self, endpoint: EndpointId) -> bool:
        """Return whether a client has an active statement, transaction or replication connection.

        Idle connections and background work of Postgres do not count.
        """

    async def read_load(self, endpoint: EndpointId) -> LoadSample | None:
        """Return the resource usage of the endpoint's compute, or None when it does not accept connections."""

    async def list_preloaded(self, endpoint: EndpointId) -> tuple[str, ...] | None:
        """Return the libraries that the running compute has preloaded, or None when it does not run.

        A compute is started without libraries that its build lacks, and without any if it does not start with them.
        """

    async def allow_failed_build(self, volume: VolumeId) -> None:
        """Let the next start on the volume try the build of its project again, though it did not start before."""
