"""What the edges are built on: made once, in app.py, and handed to each of them."""

from dataclasses import dataclass

from bough.access.keys import Keys
from bough.access.passwords import Passwords
from bough.access.principal import Principal
from bough.access.vault import Vault
from bough.config import Settings
from bough.control.audit import AuditRecord
from bough.control.context import Context
from bough.control.gateway.activity import EndpointActivity
from bough.control.gateway.wakes import Wakes
from bough.control.idempotency import IdempotencyKey
from bough.control.platform.attempt_limits import AttemptLimits
from bough.control.platform.creation_limits import CreationLimits
from bough.control.platform.history_measurements import HistoryMeasurements
from bough.control.platform.hostnames import Hostnames
from bough.control.platform.key_usage import KeyUsage
from bough.control.platform.measurements import ComputeMeasurements
from bough.control.platform.rate_limits import RateLimiter
from bough.domain.endpoint import EndpointHosts
from bough.engine.port import EngineInspection
from bough.operations.queue import OperationQueue
from bough.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    settings: Settings
    store: Store
    queue: OperationQueue
    engine: EngineInspection
    vault: Vault
    keys: Keys
    hosts: EndpointHosts
    hostnames: Hostnames
    rate_limiter: RateLimiter
    attempt_limits: AttemptLimits
    creation_limits: CreationLimits
    wakes: Wakes
    passwords: Passwords
    key_usage: KeyUsage
    compute_measurements: ComputeMeasurements
    history_measurements: HistoryMeasurements
    activity: EndpointActivity

    def create_context(
        self, principal: Principal, audit: AuditRecord, idempotency_key: IdempotencyKey | None = None
    ) -> Context:
        able = self.engine.capabilities()
        return Context(
            principal=principal,
            audit=audit,
            store=self.store,
            queue=self.queue,
            vault=self.vault,
            keys=self.keys,
            settings=self.settings,
            hosts=self.hosts,
            hostnames=self.hostnames,
            activity=self.activity,
            installs=able.installs,
            read_wal_end=self.engine.read_wal_end,
            creation_blocked_reason=able.creation_blocked_reason,
            idempotency_key=idempotency_key,
        )
