"""The engine port: branches that hold data, and computes that serve them.

It is split by user into eight protocols: BranchEngine, ComputeEngine, HistoryEngine, EngineInspection, SamplingEngine,
StatementEngine, AuditLogEngine and BuildsEngine.
Every `ensure_…` method is idempotent, also after a crash in the middle of a call. The port speaks of branches, volumes
and endpoints, never of folders and pids, so that an engine can be this machine or a cluster.
"""

from typing import Protocol

from bough.engine.port.audit_logs import AuditLogEngine
from bough.engine.port.branches import BranchEngine, Origin
from bough.engine.port.builds import (
    Build,
    BuildInspection,
    BuildsEngine,
    IndexToRebuild,
    OfferedExtension,
    OfferedExtensions,
    PutBackBuild,
)
from bough.engine.port.computes import ComputeEngine, LoadSample, Readiness
from bough.engine.port.contents import (
    DEFAULT_CONTENTS_QUERY,
    MAX_LISTED,
    BranchContents,
    ContentsQuery,
    ObservedDatabase,
    ObservedRole,
)
from bough.engine.port.errors import EngineError, VolumeHasDependents
from bough.engine.port.history import HistoryEngine, HistoryStatus
from bough.engine.port.inspection import (
    Capabilities,
    ComputeUsage,
    EngineInspection,
    Observation,
    ReplicaState,
    StorageUsage,
)
from bough.engine.port.sampling import ComputeStatistics, MachineSample, ProcessSample, SamplingEngine
from bough.engine.port.statements import (
    RunningStatement,
    SignalOutcome,
    StatementCounts,
    StatementEngine,
    StatementStatistics,
    StatementText,
    StatisticsQuery,
    StatisticsUnavailable,
)

__all__ = [
    "DEFAULT_CONTENTS_QUERY",
    "MAX_LISTED",
    "AuditLogEngine",
    "BranchContents",
    "BranchEngine",
    "Build",
    "BuildInspection",
    "BuildsEngine",
    "Capabilities",
    "ComputeEngine",
    "ComputeStatistics",
    "ComputeUsage",
    "ContentsQuery",
    "Engine",
    "EngineError",
    "EngineInspection",
    "HistoryEngine",
    "HistoryStatus",
    "IndexToRebuild",
    "LoadSample",
    "MachineSample",
    "Observation",
    "ObservedDatabase",
    "ObservedRole",
    "OfferedExtension",
    "OfferedExtensions",
    "Origin",
    "ProcessSample",
    "PutBackBuild",
    "Readiness",
    "ReplicaState",
    "RunningStatement",
    "SamplingEngine",
    "SignalOutcome",
    "StatementCounts",
    "StatementEngine",
    "StatementStatistics",
    "StatementText",
    "StatisticsQuery",
    "StatisticsUnavailable",
    "StorageUsage",
    "VolumeHasDependents",
]


class Engine(
    BranchEngine,
    ComputeEngine,
    HistoryEngine,
    EngineInspection,
    SamplingEngine,
    StatementEngine,
    AuditLogEngine,
    BuildsEngine,
    Protocol,
):
    """The whole port, for modules that pass it on. Callers declare the protocol they need."""
