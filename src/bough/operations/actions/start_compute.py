"""Start the compute of an endpoint: after creation, on wake-up, and after a crash of the compute.

The whole specification is built from rows and passed to the engine. When Postgres accepts connections and has its
roles and databases, the endpoint becomes active. For a read replica the engine first creates the copy, unless there is
one that can still catch up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from bough import clock
from bough.domain.endpoint import EndpointState, reset_after_failed_start, transition_endpoint
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind, OperationStatus
from bough.engine.port import Readiness
from bough.engine.spec import ComputeSpec
from bough.ids import EndpointId, ProjectId
from bough.operations import contents_sync
from bough.operations.action import Action, step
from bough.operations.context import ActionContext, require_found
from bough.operations.outcome import Done, Outcome, Sleep
from bough.operations.params import Params
from bough.postgres import preload_libraries
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StartComputeParams(Params):
    resumes: bool = False  # starts again after a restore; the compute serves clients until the restore stops it
    retries_build: bool = False  # also with a Postgres build that did not start before

    def to_stored(self) -> dict[str, Any]:
        flags = {"resumes": self.resumes, "retries_build": self.retries_build}
        return {name: True for name, is_set in flags.items() if is_set}

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        return cls(resumes=bool(stored.get("resumes")), retries_build=bool(stored.get("retries_build")))


class StartCompute(Action[StartComputeParams]):
    kind = OperationKind.START_COMPUTE
    params_type = StartComputeParams

    @classmethod
    def locks(cls, params: StartComputeParams, step: str | None) -> LockRequest:
        """A start that waits for a restore blocks neither the branch nor the endpoint, which is still in use."""
        return LockRequest(level=LockLevel.ENDPOINT, is_project_only=params.resumes and step is None)

    async def stop(self, ctx: ActionContext) -> None:
        """After a failed restore the compute keeps running."""
        if self.operation.status is OperationStatus.CANCELLING and self.params.resumes:
            return
        await ctx.compute_engine.ensure_suspended(self.endpoint_id)
        async with ctx.transaction() as rows:
            endpoint = await rows.endpoints.get(self.endpoint_id)
            if endpoint is not None:  # otherwise it was removed with a branch that could not be created
                await rows.endpoints.save(reset_after_failed_start(endpoint, clock.now()))
                await rows.usage.stop_metering(endpoint, clock.now())

    @step(undo=stop)
    async def launch(self, ctx: ActionContext) -> Outcome:
        endpoint = await ctx.get_endpoint(self.endpoint_id)
        was_running = (
            endpoint.state is EndpointState.ACTIVE and await ctx.compute_engine.find_address(endpoint.id) is not None
        )
        spec = await ctx.build_compute_spec(self.endpoint_id)
        if self.params.retries_build and not was_running:
            await ctx.compute_engine.allow_failed_build(spec.volume_id)
        readiness = await ctx.compute_engine.ensure_running(spec)
        if readiness is Readiness.STARTING:
            return Sleep(0.2, "Postgres is recovering")
        if was_running:
            mark_applied = partial(contents_sync.mark_applied, spec=spec)
            return Done("the compute already runs", has_changed=False, writes=mark_applied)
        shortcomings = [await self._find_failed_build(ctx, spec), await self._find_missing_libraries(ctx, spec)]
        shortcoming = " ".join(filter(None, shortcomings)) or None
        return Done("the compute accepts connections", writes=partial(self.publish, spec), shortcoming=shortcoming)

    async def _find_failed_build(self, ctx: ActionContext, spec: ComputeSpec) -> str | None:
        put_back = await ctx.build_inspection.find_put_back(spec.volume_id)
        if put_back is None:
            return None
        return (
            f"The compute runs with Postgres {put_back.kept_version}, because it did not start with "
            f"{put_back.version} ({put_back.reason.rstrip('.')}). The operator can try it again."
        )

    async def _find_missing_libraries(self, ctx: ActionContext, spec: ComputeSpec) -> str | None:
        requested = preload_libraries.parse(spec.settings)
        preloaded = await ctx.compute_engine.list_preloaded(self.endpoint_id) if requested else ()
        available = {*(preloaded or ()), *preload_libraries.DEFAULTS}  # nobody asked for these
        missing = [name for name in requested if name not in available]
        if not missing:
            return None
        return (
            f"The compute was started without the preloaded libraries {', '.join(missing)}: its Postgres build lacks "
            "them, or does not start with them. Change preload_libraries, or ask the operator for the log."
        )

    async def publish(self, spec: ComputeSpec, rows: Rows) -> None:
        now = clock.now()
        endpoint = require_found(await rows.endpoints.get(self.endpoint_id), "endpoint")
        await rows.endpoints.save(transition_endpoint(endpoint, EndpointState.ACTIVE, now))
        await rows.usage.start_metering(self.endpoint_id, now)
        await contents_sync.mark_applied(rows, spec)


async def list_resuming_endpoints(rows: Rows, project_id: ProjectId) -> frozenset[EndpointId]:
    """Return the endpoints that an open operation starts again after a restore."""
    return frozenset(
        operation.endpoint_id
        for operation in await rows.operations.list_open(project_id)
        if operation.kind is StartCompute.kind
        and operation.endpoint_id is not None
        and StartComputeParams.decode(operation.parameters).resumes
    )
