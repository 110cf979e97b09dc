"""Keep as much history as a project asks for from now on.

What is too old now goes at once; more of it than there is comes with time. A lineage that cannot be looked at now is
left to the task that looks at all of them.
"""

from bough import log
from bough.domain.operation import OperationAction
from bough.engine.port import EngineError
from bough.operations import retention
from bough.operations.action import Action, step
from bough.operations.context import ActionContext
from bough.operations.outcome import Done, Outcome
from bough.operations.retention import StoreAccess

logger = log.get_logger(component="operations")


class ApplyHistoryRetention(Action):
    action = OperationAction.APPLY_STORAGE_CONFIG

    @step
    async def apply(self, ctx: ActionContext) -> Outcome:
        async with ctx.read() as rows:
            lineages = await rows.histories.list_in_project(self.project_id)
        ways = StoreAccess(read=ctx.read, transaction=ctx.transaction)
        for lineage in lineages:
            try:
                await retention.apply_retention(ways, ctx.engine, lineage.volume_id)
            except EngineError as error:
                logger.warning("history_not_kept", volume_id=lineage.volume_id, reason=error.public_message)
        return Done("as much history is kept as was asked for")
