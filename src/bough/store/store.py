"""The store interface: `read()` and `transaction()` give access to the named queries of every resource."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from bough.store.allowances import Allowances
from bough.store.api_keys import ApiKeys
from bough.store.audit import Audit
from bough.store.branch_pages import BranchPages
from bough.store.branches import Branches
from bough.store.consumption import Consumption
from bough.store.consumption_reads import ConsumptionReads
from bough.store.databases import Databases
from bough.store.endpoints import Endpoints
from bough.store.grants import Grants
from bough.store.histories import Histories
from bough.store.idempotency import Idempotency
from bough.store.instant_databases import InstantDatabases
from bough.store.invitations import Invitations
from bough.store.lineages import Lineages
from bough.store.mail_messages import MailMessages
from bough.store.maintenance import Maintenances
from bough.store.members import Members
from bough.store.metric_roll_ups import MetricRollUps
from bough.store.metrics import Metrics
from bough.store.operations import Operations
from bough.store.organizations import Organizations
from bough.store.prepared_databases import PreparedDatabases
from bough.store.project_limits import ProjectLimits
from bough.store.project_pages import ProjectPages
from bough.store.projects import Projects
from bough.store.queries import Connection
from bough.store.roles import Roles
from bough.store.sessions import Links, Sessions
from bough.store.snapshot_schedules import SnapshotSchedules
from bough.store.snapshots import Snapshots
from bough.store.stored_amounts import StoredAmounts
from bough.store.transfer_requests import TransferRequests
from bough.store.unused_branches import UnusedBranches
from bough.store.usage import GatewayWorkers, Usages
from bough.store.users import Users
from bough.store.volume_uses import VolumeUses


class Rows:
    """The named queries of all resources on one connection."""

    def __init__(self, connection: Connection) -> None:
        self.users = Users(connection)
        self.organizations = Organizations(connection)
        self.members = Members(connection)
        self.invitations = Invitations(connection)
        self.sessions = Sessions(connection)
        self.links = Links(connection)
        self.mail_messages = MailMessages(connection)
        self.api_keys = ApiKeys(connection)
        self.projects = Projects(connection)
        self.project_pages = ProjectPages(connection)
        self.grants = Grants(connection)
        self.transfer_requests = TransferRequests(connection)
        self.instant_databases = InstantDatabases(connection)
        self.prepared_databases = PreparedDatabases(connection)
        self.branches = Branches(connection)
        self.branch_pages = BranchPages(connection)
        self.unused_branches = UnusedBranches(connection)
        self.lineages = Lineages(connection)
        self.volume_uses = VolumeUses(connection)
        self.histories = Histories(connection)
        self.snapshots = Snapshots(connection)
        self.snapshot_schedules = SnapshotSchedules(connection)
        self.allowances = Allowances(connection)
        self.project_limits = ProjectLimits(connection)
        self.endpoints = Endpoints(connection)
        self.roles = Roles(connection)
        self.databases = Databases(connection)
        self.operations = Operations(connection)
        self.maintenance = Maintenances(connection)
        self.usage = Usages(connection)
        self.consumption = Consumption(connection)
        self.consumption_reads = ConsumptionReads(connection)
        self.stored_amounts = StoredAmounts(connection)
        self.metrics = Metrics(connection)
        self.metric_roll_ups = MetricRollUps(connection)
        self.gateway_workers = GatewayWorkers(connection)
        self.idempotency = Idempotency(connection)
        self.audit = Audit(connection)


class Store(Protocol):
    """The interface that each back end implements."""

    name: str
    is_shared: bool  # whether several control processes may use it at the same time

    async def open(self) -> None:
        """Connect and migrate the schema. Raises an error if the schema is newer than the program."""

    async def close(self) -> None: ...

    def read(self, *, slow: bool = False) -> AbstractAsyncContextManager[Rows]:
        """Read committed rows without waiting for a writer.

        Pass `slow=True` for queries that may take long, so that they do not block other queries.
        """

    def try_leader_lock(self, lock_name: str = "tasks") -> AbstractAsyncContextManager[bool]:
        """Yield True in at most one process at a time for each lock name, however many processes share the store."""

    def transaction(self, *, durable: bool = True) -> AbstractAsyncContextManager[Rows]:
        """Run the block in one transaction: commit at its end, roll back if it raises.

        A durable transaction is on disk when the block ends, and so is everything committed before it. A transaction
        that is not durable is visible at once but reaches the disk a moment later: a power failure can lose the latest
        ones, never one from the middle. Use it for records of repeatable work, never for a change that a client is
        told about.
        """
