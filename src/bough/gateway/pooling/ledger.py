"""What a member was asked and has not answered yet, and what it holds for us.

Postgres answers in order. Only answers that we must treat have an entry: those that end a batch, and those
to Parse and Close, because some of these we sent ourselves. After an error Postgres skips what follows up
to the next Sync; the entries of what it skipped are void, and what they did is undone.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial

from bough.gateway.pooling.awaited import COPY_END, QUERY, SENTINEL, SYNC, Awaited, Entry, Words
from bough.gateway.pooling.statements import Statement, close
from bough.gateway.wire.refusals import Refusal
from bough.gateway.wire.session_words import Look

IDLE, IN_TRANSACTION, FAILED = b"ITE"
_MOST_STALE = 1000  # names that Postgres may have and that we do not count on


class Ledger:
    __slots__ = (
        "_has_bound",
        "_is_copying",
        "_stale",
        "custom_settings",
        "describing",
        "expected",
        "is_dirty",
        "is_skipping",
        "is_spoiled",
        "is_touched",
        "local_sets",
        "misfits",
        "most",
        "parse_unnamed",
        "prepares",
        "statements",
        "status",
        "unnamed",
        "unsynced",
    )

    def __init__(self, most: int) -> None:
        self.expected: deque[Entry] = deque()
        self.status = IDLE
        self.unsynced = False  # something was sent that no Sync has followed
        self.most = most
        self.statements: OrderedDict[bytes, None] = OrderedDict()  # those it holds, the longest unused first
        self.unnamed: Statement | None = None
        self.parse_unnamed: Entry = (Awaited.PARSE, self._void_unnamed)
        self.is_touched = False  # the session's settings may have changed
        self.is_dirty = False  # something is left that even the same client shall not find again
        self.is_spoiled = False  # no cleaning helps
        self.prepares = False
        self.local_sets = 0
        self.custom_settings: set[bytes] = set()  # names of those that were touched and that Postgres does not list
        self.misfits: set[bytes] = set()  # statements that have other columns here than clients were told
        self.describing: deque[Callable[[bytes], None]] = deque()  # who is told the columns that are asked for
        self._has_bound = False  # since the last Sync
        self._is_copying = False
        self.is_skipping = False  # Postgres reads over everything up to the next Sync
        self._stale: set[bytes] = set()

    @property
    def is_free(self) -> bool:
        """No transaction is open and nothing is under way."""
        return self.status == IDLE and not self.expected and not self.unsynced

    @property
    def is_alone(self) -> bool:
        """What is bound now would be a transaction by itself."""
        is_begun = self._has_bound or any(kind <= Awaited.QUERY for kind, _ in self.expected)
        return self.status == IDLE and not is_begun

    @property
    def is_answered(self) -> bool:
        """It is known which statements there are."""
        return not self.describing and all(kind is not Awaited.PARSE for kind, _ in self.expected)

    def note(self, look: Look) -> None:
        self.is_touched = self.is_touched or look.touches_settings
        self.is_dirty = self.is_dirty or look.dirties
        self.is_spoiled = self.is_spoiled or look.spoils
        self.prepares = self.prepares or look.prepares
        self.local_sets += look.local_sets
        self.custom_settings.update(look.custom_settings)

    def expect(self, entry: Entry) -> None:
        if not self.is_skipping:
            self.expected.append(entry)
        elif entry[1] is not None:
            entry[1]()  # Postgres does not read it

    def refuse(self, refusal: Refusal) -> None:
        self.expect((Awaited.REFUSED, Words(refusal.error())))

    def describe(self, kind: Awaited, told: Callable[[bytes], None]) -> None:
        self.describing.append(told)
        self.expect((kind, self._tell_nobody))

    def _tell_nobody(self) -> None:
        self.describing.popleft()

    def compare(self, statement: Statement, shape: bytes) -> None:
        if shape == statement.shape:
            self.misfits.discard(statement.name)
        else:
            self.misfits.add(statement.name)

    def use(self) -> None:
        self.unsynced = True

    def bind(self) -> None:
        self.unsynced = self._has_bound = True

    def flush(self) -> None:
        """Postgres says what it has to say; nothing begins with that."""

    def sync(self) -> None:
        self._has_bound = False
        if not self._is_copying:  # then Postgres reads over it
            self.expected.append(SYNC)
            self.unsynced = self.is_skipping = False

    def copy_ended(self) -> None:
        if self._is_copying:
            self._is_copying = False
        elif self.expected:
            self.expect(COPY_END)  # else nobody reads it

    def hold(self, statement: Statement) -> bytes:
        """What to send so that the member holds this statement: often nothing."""
        if statement.name in self.statements:
            self.statements.move_to_end(statement.name)
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
        self.statements[statement.name] = None
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

    def hold_unnamed(self, statement: Statement) -> bytes:
        if self.unnamed is statement:
            return b""
        self.unnamed = statement
        self.expect((Awaited.PARSE_OURS, self.drop_unnamed))
        return statement.parse()

    def drop(self, name: bytes) -> None:
        """Whether Postgres has it is not known."""
        self.statements.pop(name, None)
        self._stale.add(name)
        if len(self._stale) > _MOST_STALE:
            self.is_dirty = self.prepares = True

    def drop_unnamed(self) -> None:
        self.unnamed = None

    def _void_unnamed(self) -> None:
        """It was never made, so it is not made again."""
        if self.unnamed is not None:
            self.unnamed.body = b""
            self.unnamed = None

    def cleaned(self, *, keeps_statements: bool) -> None:
        """Nothing is left of whoever had the member."""
        self.unnamed = None
        self.is_dirty = self.is_touched = self.prepares = False
        self.local_sets = 0
        self.custom_settings.clear()
        if not keeps_statements:
            self.forget()

    def forget(self) -> None:
        """It holds no statements any longer."""
        self.unnamed = None
        self.statements.clear()
        self.misfits.clear()
        self._stale.clear()

    def doubt(self) -> None:
        """Plans of statements may not fit their tables any longer: each is made again when it is needed."""
        self._stale.update(self.statements)
        self.statements.clear()

    # Answers.

    def answered(self) -> Awaited | None:
        """A Parse or a Close is done: which."""
        return self.expected.popleft()[0] if self.expected else None

    def failed(self) -> None:
        self._is_copying = False
        if not self._void():
            self.is_skipping = True

    def ready(self, status: int) -> None:
        expected = self.expected
        if expected and expected[0][0] > Awaited.QUERY:
            self._void()
        if expected:
            expected.popleft()
        while expected and expected[0] is COPY_END:  # of data that nobody reads
            expected.popleft()
        self.is_skipping = self._is_copying = False
        self.status = status

    def copy_in(self) -> None:
        """Postgres reads data now; a Sync that comes before their end is read over."""
        expected = self.expected
        while expected and expected[0] is SYNC:
            expected.popleft()
            self.unsynced = True
        if COPY_END in expected:
            expected.remove(COPY_END)
            self.unsynced = self.unsynced and SYNC not in expected
        else:
            self._is_copying = True

    def void_all(self) -> None:
        """Postgres has read nothing of it."""
        undone = [undo for _, undo in self.expected if undo is not None]
        self.expected.clear()
        for undo in reversed(undone):
            undo()

    def _void(self) -> bool:
        """Whether the end of the batch is awaited already."""
        expected = self.expected
        undone: list[Callable[[], None]] = []
        skips_query = False
        while expected and (expected[0][0] > Awaited.QUERY or (skips_query and expected[0] is QUERY)):
            entry = expected.popleft()
            skips_query = skips_query or entry is SENTINEL
            if entry[1] is not None:
                undone.append(entry[1])
        self.unsynced = self.unsynced or (skips_query and not expected)
        for undo in reversed(undone):
            undo()
        return bool(expected)
