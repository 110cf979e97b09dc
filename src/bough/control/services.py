"""The services of one control process. app.py creates them once; servers, contexts and tasks share them."""

from dataclasses import dataclass
from typing import Protocol

from bough.access.keys import Keys
from bough.access.passwords import Passwords
from bough.access.vault import Vault
from bough.config import Settings
from bough.control.gateway.activity import EndpointActivity
from bough.control.gateway.allowances import AllowancePolicy
from bough.control.gateway.quotas import QuotaJudge
from bough.control.gateway.wakes import Wakes
from bough.control.platform.creation_limits import CreationLimits
from bough.control.platform.hostnames import Hostnames
from bough.control.platform.key_usage import KeyUsage
from bough.control.platform.measurements import ComputeMeasurements, HistoryMeasurements
from bough.control.platform.rate_limits import AttemptLimits, RateLimiter
from bough.domain.endpoint import EndpointHosts
from bough.engine.port import BuildInspection, EngineInspection, StatementEngine
from bough.operations.queue import OperationQueue
from bough.store.store import Store


class InspectedEngine(EngineInspection, BuildInspection, StatementEngine, Protocol):
    """The part of the engine that requests may use: it changes no branch and starts no compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    settings: Settings
    store: Store
    queue: OperationQueue
    engine: InspectedEngine
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
    allowances: AllowancePolicy
    quotas: QuotaJudge
