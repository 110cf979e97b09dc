"""What the edges are built on: made once, in app.py, and handed to each of them."""

from dataclasses import dataclass

from bough.access.keys import Keys
from bough.access.passwords import Passwords
from bough.access.principal import Principal
from bough.access.vault import Vault
from bough.config import Settings
from bough.control.activity import Activity
from bough.control.attempts import Attempts
from bough.control.creation_limits import CreationLimits
from bough.control.desk import Desk
from bough.control.figures import Figures
from bough.control.history_figures import HistoryFigures
from bough.control.key_use import KeyUse
from bough.control.limits import Limiter
from bough.control.names import Names
from bough.control.once import Once
from bough.control.recording import Record
from bough.control.wakes import Wakes
from bough.domain.endpoint import Hosts
from bough.engine.port import Engine
from bough.operations.queue import Queue
from bough.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    settings: Settings
    store: Store
    queue: Queue
    engine: Engine
    vault: Vault
    keys: Keys
    hosts: Hosts
    names: Names
    limiter: Limiter
    attempts: Attempts
    creation_limits: CreationLimits
    wakes: Wakes
    passwords: Passwords
    key_use: KeyUse
    figures: Figures
    history_figures: HistoryFigures
    activity: Activity

    def desk(self, principal: Principal, record: Record, once: Once | None = None) -> Desk:
        able = self.engine.capabilities()
        return Desk(
            principal=principal,
            record=record,
            store=self.store,
            queue=self.queue,
            vault=self.vault,
            keys=self.keys,
            settings=self.settings,
            hosts=self.hosts,
            names=self.names,
            activity=self.activity,
            installs=able.installs,
            written_until=self.engine.written_until,
            refuses_new=able.refuses_new,
            once=once,
        )
