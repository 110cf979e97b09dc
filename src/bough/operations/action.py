"""An action: named steps in the order they run, each beside its undo.

Every step may run twice: after a crash the runner repeats the step whose outcome was not
recorded. When an action fails for good, the undos of its steps run in reverse.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, overload

from bough.domain.operation import (
    VARIANT_KEY,
    LockScope,
    Operation,
    OperationAction,
    OperationRequest,
    Variant,
    lock_of,
)
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations.context import ActionContext
from bough.operations.outcome import Outcome

StepMethod = Callable[[Any, ActionContext], Awaitable[Outcome]]
_B = TypeVar("_B", bound=StepMethod)


@overload
def step(body: _B) -> _B: ...
@overload
def step(*, undo: str) -> Callable[[_B], _B]: ...
def step(body: Any = None, *, undo: str | None = None) -> Any:
    """Mark a method as a step; `undo` names the method that takes it back."""

    def mark(method: Any) -> Any:
        method.is_step, method.undo = True, undo
        return method

    return mark if body is None else mark(body)


@dataclass(frozen=True, slots=True)
class NewOperation:
    """Work to be enqueued: which action, on what."""

    action: OperationAction
    project_id: ProjectId
    branch_id: BranchId | None = None
    endpoint_id: EndpointId | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lock(self) -> LockScope:
        return lock_of(self)


class Action:
    """Subclass it, name the `action`, write the steps from top to bottom."""

    action: ClassVar[OperationAction]
    variant: ClassVar[Variant | None] = None  # of several with the same name
    is_forward_only: ClassVar[bool] = False  # deletions are repeated until they succeed, never undone
    steps: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        own = tuple(name for name, member in vars(cls).items() if getattr(member, "is_step", False))
        cls.steps = own or cls.steps

    def __init__(self, operation: Operation) -> None:
        self.operation = operation

    @classmethod
    def key(cls) -> tuple[OperationAction, str | None]:
        return cls.action, cls.variant

    @property
    def project_id(self) -> ProjectId:
        return self.operation.project_id

    @property
    def branch_id(self) -> BranchId:
        assert self.operation.branch_id is not None, f"{self.action} needs a branch"
        return self.operation.branch_id

    @property
    def endpoint_id(self) -> EndpointId:
        assert self.operation.endpoint_id is not None, f"{self.action} needs an endpoint"
        return self.operation.endpoint_id

    async def run(self, name: str, ctx: ActionContext) -> Outcome:
        """A step that an earlier version recorded and this one lacks: from the first again, for all may be repeated."""
        outcome: Outcome = await getattr(self, name if name in self.steps else self.steps[0])(ctx)
        return outcome

    async def undo(self, name: str, ctx: ActionContext) -> None:
        undo: str | None = getattr(self, name).undo if name in self.steps else None
        if undo is not None:
            await getattr(self, undo)(ctx)


def action_key(work: OperationRequest) -> tuple[OperationAction, str | None]:
    """Which action does it: see `Action.key`."""
    return work.action, work.parameters.get(VARIANT_KEY)
