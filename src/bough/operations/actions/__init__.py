"""Every action there is. A new one joins the tuple, and with it the tests that hold for all."""

from bough.operations.action import Action
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.create_branch import CreateBranch
from bough.operations.actions.create_timeline import CreateTimeline
from bough.operations.actions.delete_timeline import DeleteTimeline
from bough.operations.actions.start_compute import StartCompute
from bough.operations.actions.suspend_compute import SuspendCompute

EVERY: tuple[type[Action], ...] = (
    CreateTimeline,
    CreateBranch,
    StartCompute,
    SuspendCompute,
    ApplyConfig,
    DeleteTimeline,
)
