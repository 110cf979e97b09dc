"""Every action there is. A new one joins the tuple, and with it the tests that hold for all."""

from bough.operations.action import Action
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.apply_storage_config import ApplyStorageConfig
from bough.operations.actions.archive_timeline import ArchiveTimeline
from bough.operations.actions.create_branch import CreateBranch
from bough.operations.actions.create_snapshot import CreateSnapshot
from bough.operations.actions.create_timeline import CreateTimeline
from bough.operations.actions.delete_snapshot import DeleteSnapshot
from bough.operations.actions.delete_timeline import DeleteTimeline
from bough.operations.actions.finalize_restore import FinalizeRestore
from bough.operations.actions.restore_branch import RestoreBranch
from bough.operations.actions.start_compute import StartCompute
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.operations.actions.unarchive_timeline import UnarchiveTimeline

EVERY: tuple[type[Action], ...] = (
    CreateTimeline,
    CreateBranch,
    RestoreBranch,
    StartCompute,
    SuspendCompute,
    ApplyConfig,
    ApplyStorageConfig,
    DeleteTimeline,
    ArchiveTimeline,
    UnarchiveTimeline,
    CreateSnapshot,
    DeleteSnapshot,
    FinalizeRestore,
)
