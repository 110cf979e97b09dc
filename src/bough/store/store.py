"""The store: two ways in, `read()` and `transaction()`, and the named queries behind both."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from bough.store.allowances import Allowances
from bough.store.api_keys import ApiKeys
from bough.store.audit import Audit
from bough.store.branch_pages import BranchPages
from bough.store.branches import Branches
from bough.store.databases import Databases
from bough.store.endpoints import Endpoints
from bough.store.grants import Grants
from bough.store.histories import Histories
from bough.store.idempotency import Idempotency
from bough.store.instant_databases import InstantDatabases
from bough.store.invitations import Invitations
from bough.store.lineages import Lineages
from bough.store.mail_messages import MailMessages
from bough.store.members import Members
from bough.store.operations import Operations
from bough.store.organizations import Organizations
from bough.store.prepared_databases import PreparedDatabases
from bough.store.projects import Projects
from bough.store.queries import Connection
from bough.store.roles import Roles
from bough.store.sessions import Links, Sessions
from bough.store.snapshot_schedules import SnapshotSchedules
from bough.store.snapshots import Snapshots
from bough.store.transfer_requests import TransferRequests
from bough.store.unused_branches import UnusedBranches
from bough.store.usage import GatewayWorkers, Usages
from bough.store.users import Users
from bough.store.volume_uses import VolumeUses


class Rows:
    """Every resource's queries over one connection."""

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
        self.endpoints = Endpoints(connection)
        self.roles = Roles(connection)
        self.databases = Databases(connection)
        self.operations = Operations(connection)
        self.usage = Usages(connection)
        self.gateway_workers = GatewayWorkers(connection)
        self.idempotency = Idempotency(connection)
        self.audit = Audit(connection)


class Store(Protocol):
    """What a back end must offer."""

    name: str
    is_shared: bool  # whether several controls may work on it at once

    async def open(self) -> None:
        """Connect and bring the schema up to date; a store newer than the program is refused."""

    async def close(self) -> None: ...

    def read(self, *, slow: bool = False) -> AbstractAsyncContextManager[Rows]:
        """Rows as they are committed now. Never waits for a writer.

        With `slow` for what may take long: others are asked meanwhile.
        """

    def try_leader_lock(self, lock_name: str = "tasks") -> AbstractAsyncContextManager[bool]:
        """True for one process at a time and thing to lead, however many share the store."""

    def transaction(self, *, durable: bool = True) -> AbstractAsyncContextManager[Rows]:
        """All or nothing. Commits at the end of the block, rolls back when it raises.

        A lasting one is on disk when the block ends, and with it everything committed before. Another
        is seen at once but may reach the disk a moment later: a power cut undoes the last of them, never
        one from the middle. So it is for records of work that may be repeated, never for an answer given.
        """
