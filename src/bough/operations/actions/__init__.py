"""The registry of all actions. A new action must be added here."""

from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.apply_history_retention import ApplyHistoryRetention
from bough.operations.actions.archive_branch import ArchiveBranch
from bough.operations.actions.change_catalog import ChangeCatalog
from bough.operations.actions.create_branch import CreateBranch
from bough.operations.actions.create_root_branch import CreateRootBranch
from bough.operations.actions.create_snapshot import CreateSnapshot
from bough.operations.actions.delete_branch import DeleteBranch
from bough.operations.actions.delete_snapshot import DeleteSnapshot
from bough.operations.actions.finalize_restore import FinalizeRestore
from bough.operations.actions.restore_branch import RestoreBranch
from bough.operations.actions.start_compute import StartCompute
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.operations.actions.unarchive_branch import UnarchiveBranch
from bough.operations.registry import ActionRegistry

ALL_ACTIONS = ActionRegistry(
    (
        CreateRootBranch,
        CreateBranch,
        RestoreBranch,
        StartCompute,
        SuspendCompute,
        ApplyConfig,
        ChangeCatalog,
        ApplyHistoryRetention,
        DeleteBranch,
        ArchiveBranch,
        UnarchiveBranch,
        CreateSnapshot,
        DeleteSnapshot,
        FinalizeRestore,
    )
)
