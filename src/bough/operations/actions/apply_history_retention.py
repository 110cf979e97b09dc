"""Apply the history retention of a project to all its lineages.

A shorter retention removes old history at once; a longer one takes effect as time passes. A lineage that cannot be
processed now is left to the task that maintains all histories.
"""

from bough import log
from bough.domain.locks import LockLevel, LockRequest
from bough.domain.operation import OperationKind
from bough.engine.port import EngineError
from bough.operations import retention
from bough.operations.action import Action, step
from bough.operations.context import ActionContext
from bough.operations.outcome import Done, Outcome
from bough.operations.params import NoParams
from bough.operations.retention import StoreAccess

logger = log.get_logger(component="operations")


class ApplyHistoryRetention(Action[NoParams]):
    kind = OperationKind.APPLY_HISTORY_RETENTION

    @classmethod
    def locks(cls, params: NoParams, step: str | None) -> LockRequest:
        """It names no branch, so it conflicts only with locks on the whole project."""
        return LockRequest(level=LockLevel.REPLACEMENT)

    @step
    async def apply(self, ctx: ActionContext) -> Outcome:
        async with ctx.read() as rows:
            lineages = await rows.histories.list_in_project(self.project_id)
        store_access = StoreAccess(read=ctx.read, transaction=ctx.transaction, lock_of=ctx.lock_of)
        for lineage in lineages:
            try:
                await retention.apply_retention(store_access, ctx.history_engine, lineage.volume_id)
            except EngineError as error:
                logger.warning("retention_not_applied", volume_id=lineage.volume_id, reason=error.public_message)
        return Done("the history retention is applied")
