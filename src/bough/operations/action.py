"""An action: named steps in the order in which they run, each with an optional undo.

Every step must be repeatable: after a crash the runner repeats the step whose outcome was not recorded. When an
action fails for good, the runner calls the undo methods of its steps in reverse order.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

from bough.domain.endpoint import Endpoint
from bough.domain.locks import LockRequest, LockScope
from bough.domain.operation import Operation, OperationKind
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.context import ActionContext
from bough.operations.outcome import Outcome
from bough.operations.params import NoParams, Params

StepMethod = Callable[[Any, ActionContext], Awaitable[Outcome]]
UndoMethod = Callable[[Any, ActionContext], Awaitable[None]]
_S = TypeVar("_S", bound=StepMethod)
_P = TypeVar("_P", bound=Params)


@overload
def step(body: _S) -> _S: ...
@overload
def step(*, undo: UndoMethod) -> Callable[[_S], _S]: ...
def step(body: Any = None, *, undo: UndoMethod | None = None) -> Any:
    """Mark a method as a step; `undo` is the method that reverts it. Rows store the name of the method."""

    def mark(method: Any) -> Any:
        method.is_step, method.undo = True, undo
        return method

    return mark if body is None else mark(body)


class Action(ABC, Generic[_P]):
    """Base of all actions. A subclass sets `kind` and `params_type`, and defines `locks` and its steps in order."""

    kind: ClassVar[OperationKind]
    params_type: ClassVar[type[Params]] = NoParams
    is_forward_only: ClassVar[bool] = False  # deletions are repeated until they succeed and never undone
    steps: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = tuple(name for name, member in vars(cls).items() if getattr(member, "is_step", False))
        cls.steps = own or cls.steps

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.params = cast(_P, self.params_type.decode(operation.parameters))

    @classmethod
    @abstractmethod
    def locks(cls, params: _P, step: str | None) -> LockRequest:
        """Return what the operation locks for `step`, which is None while it waits for the operation before it."""

    @property
    def project_id(self) -> ProjectId:
        return self.operation.project_id

    @property
    def branch_id(self) -> BranchId:
        assert self.operation.branch_id is not None, f"{self.kind} needs a branch"
        return self.operation.branch_id

    @property
    def endpoint_id(self) -> EndpointId:
        assert self.operation.endpoint_id is not None, f"{self.kind} needs an endpoint"
        return self.operation.endpoint_id

    async def run(self, name: str, ctx: ActionContext) -> Outcome:
        """Run a step.

        An unknown name, stored by an earlier version, runs the first step, because every step is repeatable.
        """
        outcome: Outcome = await getattr(self, name if name in self.steps else self.steps[0])(ctx)
        return outcome

    async def undo(self, name: str, ctx: ActionContext) -> None:
        undo: UndoMethod | None = getattr(type(self), name).undo if name in self.steps else None
        if undo is not None:
            await undo(self, ctx)


ActionType = type[Action[Any]]


@dataclass(frozen=True, slots=True)
class NewOperation:
    """An operation to enqueue: the action, what it works on, and its parameters."""

    action: ActionType
    project_id: ProjectId
    branch_id: BranchId | None = None
    endpoint_id: EndpointId | None = None
    params: Params = field(default_factory=NoParams)

    @classmethod
    def for_endpoint(cls, action: ActionType, endpoint: Endpoint, *, params: Params | None = None) -> "NewOperation":
        return cls(action, endpoint.project_id, endpoint.branch_id, endpoint.id, params or NoParams())

    def __post_init__(self) -> None:
        # An action whose parameters all have defaults may be named alone.
        if type(self.params) is NoParams and self.action.params_type is not NoParams:
            object.__setattr__(self, "params", self.action.params_type())
        assert isinstance(self.params, self.action.params_type), (self.action, self.params)

    @property
    def lock(self) -> LockScope:
        request = self.action.locks(self.params, self.action.steps[0])
        return LockScope.of(request, self.project_id, self.branch_id, self.endpoint_id)
