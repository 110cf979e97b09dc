"""The components of the local engine, created from the settings and connected to one another."""

from functools import partial

from bough.config import Settings
from bough.engine.local import free_space
from bough.engine.local.branch_volumes import BranchVolumes
from bough.engine.local.build_moves import BuildMoves
from bough.engine.local.build_uses import BuildUses
from bough.engine.local.collations import CollationChecks
from bough.engine.local.computes.audit_collection import AuditRetention
from bough.engine.local.computes.audit_logs import AuditLogs
from bough.engine.local.computes.compute_launcher import ComputeLauncher
from bough.engine.local.computes.compute_sizes import ComputeSizes
from bough.engine.local.computes.computes import Computes
from bough.engine.local.computes.kept_sessions import KeptSessions
from bough.engine.local.computes.read_only import ReadOnlyComputes
from bough.engine.local.computes.replication_slots import ReplicationSlots
from bough.engine.local.computes.replication_status import ReplicationMonitor
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.runs import ComputeRuns
from bough.engine.local.computes.spare_assignment import SpareAssignment
from bough.engine.local.computes.temporary_computes import TemporaryComputes
from bough.engine.local.extension_checks import ExtensionChecks
from bough.engine.local.folders import Folders
from bough.engine.local.history.volume_history import VolumeHistory
from bough.engine.local.images.thin_space import ThinSpace
from bough.engine.local.inspection import LocalInspection
from bough.engine.local.installs.catalog import InstallCatalog
from bough.engine.local.isolation import cgroups
from bough.engine.local.isolation.sandbox import Sandbox
from bough.engine.local.project_users import ProjectUsers
from bough.engine.local.replicas import Replicas
from bough.engine.local.resource_locks import ResourceLocks
from bough.engine.local.sampling import LocalSampling
from bough.engine.local.statements import LocalStatements
from bough.engine.local.templates import Templates
from bough.engine.local.threads import NamedLocks
from bough.engine.local.volume_packer import VolumePacker
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.local.warm.pool import WarmPool
from bough.engine.local.warm.spares import SpareComputes


class EngineComponents:
    def __init__(self, settings: Settings, *, warm_pool_size: int) -> None:
        floor = settings.free_space_floor
        self.folders = Folders(settings)
        self.install_catalog = InstallCatalog(settings.cache, settings.home)
        self.sandbox = Sandbox(settings)
        self.cgroups = cgroups.detect_cgroups(settings)
        self.locks = NamedLocks()
        self.resource_locks = ResourceLocks(self.locks, self.folders)
        self.thin_space = ThinSpace(floor, lambda: self.folders.image)
        self.check_can_create = partial(free_space.check_can_create, self.folders, floor)
        self.volumes = Volumes(self.folders.volumes, self.folders.wal_archives)
        self.templates = Templates(self.folders.templates, self.volumes)
        self.project_users = ProjectUsers(self.sandbox, self.volumes)
        self._create_computes()
        retention = AuditRetention(file_bytes=settings.log_file_bytes, files_kept=settings.audit_log_files_kept)
        self.audit_logs = AuditLogs(self.folders, self.runs, retention)
        self.branch_volumes = BranchVolumes(self.volumes, self.templates, self.running, self.project_users, self.locks)
        self.build_uses = BuildUses(self.volumes, self.install_catalog)
        self.history = VolumeHistory(
            self.volumes,
            self.templates,
            self.branch_volumes,
            running=self.running,
            temporary=self.temporary,
            project_users=self.project_users,
            locks=self.locks,
            spools=self.folders.spools,
            uses=self.build_uses,
            explain_shortage=lambda: free_space.explain_shortage(self.folders, floor),
            base_bytes=settings.history_base_bytes,
        )
        self.build_moves = BuildMoves(self.install_catalog, self.volumes, self.running, self.build_uses, self.history)
        self.packer = VolumePacker(self.volumes, self.running, self.folders, floor=floor)
        slots = ReplicationSlots(self.folders, self.volumes)
        self.replicas = Replicas(
            self.branch_volumes,
            self.running,
            self.folders,
            self.volumes,
            self.locks,
            slots=slots,
            check_can_create=self.check_can_create,
        )
        self.replication_monitor = ReplicationMonitor(self.running, self.volumes, slots)
        self.inspection = LocalInspection(
            self.running, self.replication_monitor, self.sizes, self.folders, self.volumes, floor=floor
        )
        self.kept_sessions = KeptSessions()
        self.sampling = LocalSampling(self.running, self.kept_sessions, self.folders, floor=floor)
        self.statements = LocalStatements(self.running)
        self.collation_checks = CollationChecks(self.running, self.volumes)
        self.extension_checks = ExtensionChecks(self.running, self.volumes)
        self.warm = WarmPool(
            SpareComputes(
                self.branch_volumes,
                self.computes,
                self.running,
                self.volumes,
                self.project_users,
                assignment=self.spare_assignment,
            ),
            size=warm_pool_size,
            memory_share=settings.warm_memory_share,
            is_engine_busy=lambda: self.resource_locks.has_waiting_requests,
            check_can_create=self.check_can_create,
        )

    def _create_computes(self) -> None:
        socket_users = self.sandbox.socket_users
        self.runs = ComputeRuns(self.folders.runs)
        self.spare_assignment = SpareAssignment(self.folders, self.volumes, self.runs)
        self.running = RunningComputes(
            self.folders,
            self.volumes,
            socket_users,
            self.cgroups,
            runs=self.runs,
            spare_assignment=self.spare_assignment,
        )
        launcher = ComputeLauncher(
            self.running,
            self.folders,
            self.volumes,
            socket_users,
            self.cgroups,
            runs=self.runs,
            spare_assignment=self.spare_assignment,
        )
        self.computes = Computes(self.running, launcher, self.volumes, socket_users, self.runs)
        self.temporary = TemporaryComputes(self.computes, self.running)
        self.read_only_computes = ReadOnlyComputes(self.computes, self.running, self.temporary, self.volumes)
        self.sizes = ComputeSizes(self.runs, self.volumes, self.cgroups)
