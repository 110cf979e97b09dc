"""The actions by kind, and the lock of a stored operation."""

from collections.abc import Iterable, Iterator

from bough import log
from bough.domain.locks import LockLevel, LockScope
from bough.domain.operation import Operation, OperationKind, OperationStatus
from bough.operations.action import ActionType
from bough.operations.params import UndecodableParams

logger = log.get_logger(component="operations")


class ActionRegistry:
    def __init__(self, actions: Iterable[ActionType]) -> None:
        self._by_kind: dict[OperationKind, ActionType] = {action.kind: action for action in actions}

    def __iter__(self) -> Iterator[ActionType]:
        return iter(self._by_kind.values())

    def get(self, kind: OperationKind) -> ActionType:
        return self._by_kind[kind]

    def can_undo(self, operation: Operation) -> bool:
        """Whether the operation may be undone. One that this version cannot decode is left to the version that can."""
        action = self._by_kind.get(operation.kind)
        if action is None or action.is_forward_only:
            return False
        try:
            action.params_type.decode(operation.parameters)
        except UndecodableParams:
            return False
        return True

    def lock_of(self, operation: Operation) -> LockScope:
        """The whole project for an operation that cannot be decoded: nothing else is known to be safe."""
        try:
            action = self._by_kind[operation.kind]
            params = action.params_type.decode(operation.parameters)
        except (KeyError, UndecodableParams) as error:
            logger.error("operation_not_decodable", operation_id=operation.id, error=str(error))
            return LockScope(level=LockLevel.PROJECT, project_id=operation.project_id)
        step = None if operation.status is OperationStatus.SCHEDULING else operation.step
        return LockScope.of(
            action.locks(params, step), operation.project_id, operation.branch_id, operation.endpoint_id
        )
