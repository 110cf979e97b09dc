"""What a member holds for its clients, and what they have left behind in its session, as far as it is known."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection
from functools import partial
from itertools import islice

from bough.gateway.pooling.awaited import Awaited, Entry
from bough.gateway.pooling.statements import Statement, close
from bough.gateway.wire.session_words import Look

_MOST_STALE = 1000  # names that Postgres may have and that we do not count on
_MOST_UNUSED = 8  # times that sparing the statements may be in vain: it takes longer, as long in sum as making one
_MOST_SPARED = 50  # when the member changes hands: Postgres has to look at each of them
_WORTH_SPARING = 100  # bytes; to make a shorter one again takes Postgres no longer than to spare it


class Holdings(ABC):
    def __init__(self, most: int) -> None:
        self.most = most
        self.statements: OrderedDict[bytes, int] = OrderedDict()  # names and lengths; the longest unused first
        self._unused = 0  # times that the session was cleaned since one of them was used
        self.misfits: set[bytes] = set()  # statements that have other columns here than clients were told
        self.is_touched = False  # the session's settings may have changed
        self.is_dirty = False  # something is left that even the same client shall not find again
        self.is_spoiled = False  # no cleaning helps
        self.prepares = False
        self.changes_extensions = False
        self.seeds = False
        self.local_sets = 0
        self.custom_settings: set[bytes] = set()  # names of those that were touched and that Postgres does not list
        self._stale: set[bytes] = set()

    @abstractmethod
    def expect(self, entry: Entry) -> None:
        """An answer, to what is sent next."""

    def note(self, look: Look) -> None:
        self.is_touched = self.is_touched or look.touches_settings
        self.is_dirty = self.is_dirty or look.dirties
        self.is_spoiled = self.is_spoiled or look.spoils
        self.prepares = self.prepares or look.prepares
        self.changes_extensions = self.changes_extensions or look.changes_extensions
        self.seeds = self.seeds or look.seeds
        self.local_sets += look.local_sets
        self.custom_settings.update(look.custom_settings)

    def compare(self, statement: Statement, shape: bytes) -> None:
        if shape == statement.shape:
            self.misfits.discard(statement.name)
        else:
            self.misfits.add(statement.name)

    def hold(self, statement: Statement) -> bytes:
        """What to send so that the member holds this statement: often nothing."""
        if statement.name in self.statements:
            self.statements.move_to_end(statement.name)
            self._unused = 0
            return b""
        room = self.make_room(statement)
        self.expect((Awaited.PARSE_OURS, partial(self.drop, statement.name)))
        return room + statement.parse()

    def make_room(self, statement: Statement) -> bytes:
        """The statement counts as held from now on."""
        out = b""
        for name in self._leaving(statement):
            self.expect((Awaited.CLOSE_OURS, partial(self.drop, name)))
            out += close(name)
        self.statements[statement.name] = len(statement.body)
        self._unused = 0
        return out

    def _leaving(self, statement: Statement) -> list[bytes]:
        """The statement itself too, when it is there: it may be an old one."""
        leaving = []
        if statement.name in self.statements or statement.name in self._stale:
            self.statements.pop(statement.name, None)
            self._stale.discard(statement.name)
            leaving.append(statement.name)
        if len(self.statements) >= self.most:
            leaving.append(self.statements.popitem(last=False)[0])
        return leaving

    def drop(self, name: bytes) -> None:
        """Whether Postgres has it is not known."""
        self.statements.pop(name, None)
        self._stale.add(name)
        if len(self._stale) > _MOST_STALE:
            self.is_dirty = self.prepares = True

    def cleaned(self, own: Collection[bytes]) -> list[bytes] | None:
        """Nothing is left of whoever had the member; which statements must be closed for that, None: all.

        The next client sees the texts of all that there are, so only its `own` are spared.
        """
        spared: list[bytes] = []
        if self.statements and own and not self.prepares and self._unused < _MOST_UNUSED:
            spared = [name for name in islice(reversed(self.statements), _MOST_SPARED) if name in own]
        self._unused += 1
        self.is_dirty = self.is_touched = self.prepares = self.changes_extensions = self.seeds = False
        self.local_sets = 0
        self.custom_settings.clear()
        if not any(self.statements[name] >= _WORTH_SPARING for name in spared):
            self.forget()
            return None
        return self._spare(spared)

    def _spare(self, spared: list[bytes]) -> list[bytes]:
        """No others are held any longer; which those are."""
        leaving = list(self.statements.keys() - spared) if len(spared) < len(self.statements) else []
        for name in leaving:
            del self.statements[name]
        leaving += self._stale
        self._stale.clear()
        self.misfits.difference_update(leaving)
        return leaving

    def forget(self) -> None:
        """It holds no statements any longer, but for the one without a name."""
        self.statements.clear()
        self.misfits.clear()
        self._stale.clear()

    def doubt(self) -> None:
        """Plans of statements may not fit their tables any longer: each is made again when it is needed."""
        self._stale.update(self.statements)
        self.statements.clear()
