"""The actions by kind, and the lock of a stored operation."""

from collections.abc import Iterable, Iterator

from bough import log
from bough.domain.locks import LockScope
from bough.domain.operation import Operation, OperationKind, OperationStatus
from bough.ids import OperationId
from bough.operations.action import ActionType
from bough.operations.params import Params, UndecodableParams

logger = log.get_logger(component="operations")


class ActionRegistry:
    def __init__(self, actions: Iterable[ActionType]) -> None:
        self._by_kind: dict[OperationKind, ActionType] = {action.kind: action for action in actions}
        self._logged: set[OperationId] = set()  # operations that cannot be decoded

    def __iter__(self) -> Iterator[ActionType]:
        return iter(self._by_kind.values())

    def get(self, kind: OperationKind) -> ActionType:
        return self._by_kind[kind]

    def can_undo(self, operation: Operation) -> bool:
        """Return whether the operation may be undone. One that this version cannot decode is left to one that can."""
        return self.can_decode(operation) and not self._by_kind[operation.kind].is_forward_only

    def can_decode(self, operation: Operation) -> bool:
        try:
            self._decode(operation)
        except (KeyError, UndecodableParams):
            return False
        return True

    def lock_of(self, operation: Operation) -> LockScope:
        """Return the whole project for an operation that cannot be decoded: nothing else is known to be safe."""
        try:
            action, params = self._decode(operation)
        except (KeyError, UndecodableParams) as error:
            if operation.id not in self._logged:
                self._logged.add(operation.id)
                logger.error("operation_not_decodable", operation_id=operation.id, error=str(error))
            return LockScope.project(operation.project_id)
        step = None if operation.status is OperationStatus.SCHEDULING else operation.step
        return LockScope.of(
            action.locks(params, step), operation.project_id, operation.branch_id, operation.endpoint_id
        )

    def _decode(self, operation: Operation) -> tuple[ActionType, Params]:
        action = self._by_kind[operation.kind]
        return action, action.params_type.decode(operation.parameters)
