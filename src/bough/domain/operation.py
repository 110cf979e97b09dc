"""An operation: durable work on a project that users can see.

Its row is both the queue entry and the public record. `OperationKind` names what an operation does;
`STORED_KINDS` says how each kind is written in the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any

from bough.ids import BranchId, EndpointId, OperationId, ProjectId


class OperationKind(StrEnum):
    """One kind per action. Neither stored nor published: see `STORED_KINDS` and the API's names."""

    CREATE_ROOT_BRANCH = "create_root_branch"  # create the volume of a root branch
    CREATE_BRANCH = "create_branch"  # create the volume of a branch from its parent or from a snapshot
    RESTORE_BRANCH = "restore_branch"  # replace the data of an existing branch
    FINALIZE_RESTORE = "finalize_restore"  # let a restored branch take the place of another
    CREATE_SNAPSHOT = "create_snapshot"
    DELETE_SNAPSHOT = "delete_snapshot"
    START_COMPUTE = "start_compute"
    SUSPEND_COMPUTE = "suspend_compute"
    APPLY_CONFIG = "apply_config"  # apply new settings to a running compute
    CHANGE_CATALOG = "change_catalog"  # change a role or a database
    DELETE_BRANCH = "delete_branch"  # remove the data of a branch for good
    APPLY_HISTORY_RETENTION = "apply_history_retention"
    ARCHIVE_BRANCH = "archive_branch"
    UNARCHIVE_BRANCH = "unarchive_branch"


@dataclass(frozen=True, slots=True)
class StoredKind:
    """How a kind is written: the column `action`, and the key `variant` where kinds share an action."""

    action: str
    variant: str | None = None


# The format of rows since the first version: never change an entry.
STORED_KINDS: Mapping[OperationKind, StoredKind] = {
    OperationKind.CREATE_ROOT_BRANCH: StoredKind("create_timeline"),
    OperationKind.CREATE_BRANCH: StoredKind("create_branch"),
    OperationKind.RESTORE_BRANCH: StoredKind("create_timeline", "restore"),
    OperationKind.FINALIZE_RESTORE: StoredKind("create_timeline", "finalize"),
    OperationKind.CREATE_SNAPSHOT: StoredKind("create_branch", "snapshot"),
    OperationKind.DELETE_SNAPSHOT: StoredKind("delete_timeline", "snapshot"),
    OperationKind.START_COMPUTE: StoredKind("start_compute"),
    OperationKind.SUSPEND_COMPUTE: StoredKind("suspend_compute"),
    OperationKind.APPLY_CONFIG: StoredKind("apply_config"),
    OperationKind.CHANGE_CATALOG: StoredKind("apply_config"),  # told apart by its parameter `change`
    OperationKind.DELETE_BRANCH: StoredKind("delete_timeline"),
    OperationKind.APPLY_HISTORY_RETENTION: StoredKind("apply_storage_config"),
    OperationKind.ARCHIVE_BRANCH: StoredKind("timeline_archive"),
    OperationKind.UNARCHIVE_BRANCH: StoredKind("timeline_unarchive"),
}
_KINDS = {stored: kind for kind, stored in STORED_KINDS.items() if kind is not OperationKind.CHANGE_CATALOG}
_VARIANT, _CHANGE = "variant", "change"


def encode_kind(kind: OperationKind, parameters: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the columns `action` and `parameters`."""
    stored = STORED_KINDS[kind]
    return stored.action, parameters if stored.variant is None else {_VARIANT: stored.variant, **parameters}


def decode_kind(action: str, stored: Mapping[str, Any]) -> tuple[OperationKind, Mapping[str, Any]]:
    """Return the kind and the parameters of a row."""
    parameters = {name: value for name, value in stored.items() if name != _VARIANT}
    if action == STORED_KINDS[OperationKind.CHANGE_CATALOG].action and _CHANGE in parameters:
        return OperationKind.CHANGE_CATALOG, parameters
    return _KINDS[StoredKind(action, stored.get(_VARIANT))], parameters


class OperationStatus(StrEnum):
    SCHEDULING = "scheduling"  # waits for the operation before it
    RUNNING = "running"  # due, or being run
    FINISHED = "finished"  # done
    FAILED = "failed"  # undone after a failure; `error` says why
    CANCELLING = "cancelling"  # being undone, because the operation before it failed
    CANCELLED = "cancelled"  # undone; it never ran
    SKIPPED = "skipped"  # there was nothing to do


TERMINAL_STATUSES = frozenset(
    {OperationStatus.FINISHED, OperationStatus.FAILED, OperationStatus.CANCELLED, OperationStatus.SKIPPED}
)


class Lane(Enum):
    """Urgent operations have workers of their own."""

    URGENT = "urgent"
    REGULAR = "regular"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    id: OperationId
    project_id: ProjectId
    branch_id: BranchId | None
    endpoint_id: EndpointId | None
    kind: OperationKind
    status: OperationStatus
    parameters: Mapping[str, Any]  # as stored; see the `Params` of the action
    after: OperationId | None  # starts only after this operation has finished
    step: str  # the next step to run
    steps_done: tuple[str, ...]
    undoing: bool
    failures: int
    error: str | None
    due_at: datetime
    lease_until: datetime | None
    fence: int  # incremented with each lease; writes with an older fence fail
    request_id: str
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    is_urgent: bool = False  # a client waits for it to connect
    crashes: int = 0  # how often the control process died while the current step ran

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL_STATUSES

    @property
    def lane(self) -> Lane:
        return Lane.URGENT if self.is_urgent else Lane.REGULAR

    @property
    def stored_action(self) -> str:
        """The value of the column `action`, which is also the name in messages and metrics."""
        return STORED_KINDS[self.kind].action
