"""Creates the task loops of a control process. A new task is added here."""

from bough.control.platform.tls_files import TlsFiles
from bough.control.services import Services
from bough.engine.port import Engine
from bough.tasks.archive_branches import ArchiveBranches
from bough.tasks.cleanup import (
    DeleteEndpointLogs,
    DeleteExpiredTokens,
    DeleteGatewayWorkers,
    DeleteIdempotencyKeys,
    DeleteOldAudit,
)
from bough.tasks.collect_audit_logs import CollectAuditLogs
from bough.tasks.count_storage import CountStorage
from bough.tasks.count_usage import CountUsage
from bough.tasks.delete_old_consumption import DeleteOldConsumption
from bough.tasks.enforce_quotas import EnforceQuotas
from bough.tasks.enforce_storage_limits import EnforceStorageLimits
from bough.tasks.expire_branches import ExpireBranches
from bough.tasks.expire_metrics import ExpireMetrics
from bough.tasks.expire_snapshots import ExpireSnapshots
from bough.tasks.expire_unclaimed import ExpireUnclaimed
from bough.tasks.flush_key_usage import FlushKeyUsage
from bough.tasks.follow_postgres_builds import FollowPostgresBuilds
from bough.tasks.history_alarm import HistoryAlarm
from bough.tasks.loop import Loop, Task
from bough.tasks.maintain_history import MaintainHistory
from bough.tasks.measure_branches import MeasureBranches
from bough.tasks.prepare_instant_databases import PrepareInstantDatabases
from bough.tasks.purge_deleted import PurgeDeleted
from bough.tasks.read_contents import ReadContents
from bough.tasks.reconcile_computes import ReconcileComputes
from bough.tasks.renew_certificates import RenewCertificates
from bough.tasks.repair_replicas import RepairReplicas
from bough.tasks.retire_volumes import RetireVolumes
from bough.tasks.roll_up_metrics import RollUpMetrics
from bough.tasks.rotate_logs import RotateLogs
from bough.tasks.run_maintenance import RunMaintenance
from bough.tasks.sample_computes import SampleComputes
from bough.tasks.scale_computes import ScaleComputes
from bough.tasks.send_mail import SendMail
from bough.tasks.suspend_idle import SuspendIdle
from bough.tasks.sync_hostnames import SyncHostnames
from bough.tasks.take_snapshots import TakeSnapshots
from bough.tasks.update_postgres import UpdatePostgres


def create_loops(services: Services, engine: Engine, tls_files: TlsFiles) -> tuple[Loop, ...]:
    """Tasks that share a loop run one after another.

    A task that waits for computes or for the disk has a loop of its own, so that it does not delay the others.
    The name of a loop is the name of its leader lock.
    """
    settings, store = services.settings, services.store
    queue, activity, allowances = services.queue, services.activity, services.allowances
    alarm = HistoryAlarm(settings, services.history_measurements)
    own_loops: dict[str, Task] = {
        "contents": ReadContents(store, engine, queue, activity, settings.plan),
        "idle computes": SuspendIdle(settings, store, engine, queue, activity),
        "storage": EnforceStorageLimits(
            settings,
            store=store,
            engine=engine,
            queue=queue,
            activity=activity,
            allowances=allowances,
            judge=services.quotas,
        ),
        "replicas": RepairReplicas(store, engine, queue, activity),
        "history": MaintainHistory(store, engine, alarm),
        "retired volumes": RetireVolumes(store, engine),
        "scaling": ScaleComputes(store, engine, activity),
        "measures": MeasureBranches(store, engine, services.compute_measurements, activity),
        "mail": SendMail(settings, store, services.vault),
        "instant databases": PrepareInstantDatabases(services),
        "postgres builds": FollowPostgresBuilds(engine),
        "stored data": CountStorage(store),
        "audit logs": CollectAuditLogs(engine),
        "postgres update": UpdatePostgres(settings),
        "maintenance": RunMaintenance(settings, store, engine, queue, services.vault),
    }
    if settings.metrics_disk_bytes:
        own_loops["samples"] = SampleComputes(store, engine, activity, services.compute_measurements)
    return (
        Loop(store, _create_tasks(services, engine, tls_files)),
        Loop(store, _create_quick_tasks(services), "quick tasks"),
        Loop(store, (RollUpMetrics(store), ExpireMetrics(settings, store)), "metrics"),
        *(Loop(store, (task,), name) for name, task in own_loops.items()),
    )


def _create_tasks(services: Services, engine: Engine, tls_files: TlsFiles) -> tuple[Task, ...]:
    settings, store = services.settings, services.store
    queue, activity = services.queue, services.activity
    return (
        ReconcileComputes(store, engine, queue, activity),
        PurgeDeleted(store, queue),
        ExpireBranches(settings, store, queue, activity),
        ExpireSnapshots(store, queue),
        TakeSnapshots(settings, store, engine, queue),
        ExpireUnclaimed(store, queue, activity),
        ArchiveBranches(settings, store, engine, queue),
        FlushKeyUsage(store, services.key_usage),
        DeleteIdempotencyKeys(store),
        DeleteGatewayWorkers(store),
        DeleteExpiredTokens(store),
        DeleteOldAudit(settings, store),
        DeleteOldConsumption(store),
        RotateLogs(settings),
        DeleteEndpointLogs(settings, store, engine),
        RenewCertificates(tls_files),
        SyncHostnames(store, services.hostnames),
    )


def _create_quick_tasks(services: Services) -> tuple[Task, ...]:
    return (
        CountUsage(services.store, services.engine),
        EnforceQuotas(
            services.settings,
            store=services.store,
            queue=services.queue,
            activity=services.activity,
            judge=services.quotas,
        ),
    )
