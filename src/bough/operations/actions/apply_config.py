"""Apply new settings to a running compute, and restart it when a setting requires that.

A suspended compute needs nothing: it starts with the settings that are stored then.
"""

from functools import partial

from bough.domain.endpoint import EndpointState
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.engine.port import Readiness
from bough.operations import contents_sync
from bough.operations.action import Action, step
from bough.operations.context import ActionContext
from bough.operations.outcome import Done, Outcome, Sleep
from bough.operations.params import NoParams


class ApplyConfig(Action[NoParams]):
    kind = OperationKind.APPLY_CONFIG

    @classmethod
    def locks(cls, params: NoParams, step: str | None) -> LockRequest:
        return LockRequest(level=LockLevel.ENDPOINT)

    @step
    async def apply(self, ctx: ActionContext) -> Outcome:
        endpoint = await ctx.get_endpoint(self.endpoint_id)
        if endpoint.state is not EndpointState.ACTIVE:
            return Done("the compute is suspended and starts with the new settings", has_changed=False)
        spec = await ctx.build_compute_spec(self.endpoint_id)
        if await ctx.compute_engine.ensure_running(spec) is Readiness.STARTING:
            return Sleep(0.2, "Postgres is restarting")
        return Done("the compute runs with the new settings", writes=partial(contents_sync.mark_applied, spec=spec))
