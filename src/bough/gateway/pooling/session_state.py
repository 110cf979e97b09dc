"""What a member holds for its clients, and what they have left behind in its session, as far as it is known."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection
from functools import partial
from itertools import islice

from bough.gateway.pooling.awaited import ExpectedReply, ReplyKind
from bough.gateway.pooling.statements import PreparedStatement, encode_close
from bough.gateway.wire.session_effects import SessionEffects

_MOST_STALE = 1000  # names that Postgres may have and that we do not count on
_MOST_UNUSED = 8  # times that sparing the statements may be in vain: it takes longer, as long in sum as making one
_MOST_SPARED = 50  # when the member changes hands: Postgres has to look at each of them
_WORTH_SPARING = 100  # bytes; to make a shorter one again takes Postgres no longer than to spare it


class SessionState(ABC):
    def __init__(self, max_statements: int) -> None:
        self.max_statements = max_statements
        self.statements: OrderedDict[bytes, int] = OrderedDict()  # names and lengths; the longest unused first
        self._unused = 0  # times that the session was cleaned since one of them was used
        self.changed_statements: set[bytes] = set()  # statements that have other columns here than clients were told
        self.has_changed_settings = False  # the session's settings may have changed
        self.is_dirty = False  # something is left that even the same client shall not find again
        self.is_unusable = False  # no cleaning helps
        self.has_sql_prepared = False
        self.has_changed_extensions = False
        self.has_set_seed = False
        self.local_sets = 0
        self.custom_settings: set[bytes] = set()  # names of those that were touched and that Postgres does not list
        self._stale: set[bytes] = set()

    @abstractmethod
    def expect(self, entry: ExpectedReply) -> None:
        """An answer, to what is sent next."""

    def record_effects(self, effects: SessionEffects) -> None:
        self.has_changed_settings = self.has_changed_settings or effects.changes_settings
        self.is_dirty = self.is_dirty or effects.leaves_state
        self.is_unusable = self.is_unusable or effects.prevents_reuse
        self.has_sql_prepared = self.has_sql_prepared or effects.prepares_by_sql
        self.has_changed_extensions = self.has_changed_extensions or effects.changes_extensions
        self.has_set_seed = self.has_set_seed or effects.sets_random_seed
        self.local_sets += effects.local_sets
        self.custom_settings.update(effects.custom_settings)

    def compare_description(self, statement: PreparedStatement, description_hash: bytes) -> None:
        if description_hash == statement.description_hash:
            self.changed_statements.discard(statement.name)
        else:
            self.changed_statements.add(statement.name)

    def ensure_prepared(self, statement: PreparedStatement) -> bytes:
        """What to send so that the member holds this statement: often nothing."""
        if statement.name in self.statements:
            self.statements.move_to_end(statement.name)
            self._unused = 0
            return b""
        room = self.add_statement(statement)
        self.expect((ReplyKind.PARSE_OURS, partial(self.mark_stale, statement.name)))
        return room + statement.encode_parse()

    def add_statement(self, statement: PreparedStatement) -> bytes:
        """The statement counts as held from now on."""
        out = b""
        for name in self._statements_to_close(statement):
            self.expect((ReplyKind.CLOSE_OURS, partial(self.mark_stale, name)))
            out += encode_close(name)
        self.statements[statement.name] = len(statement.body)
        self._unused = 0
        return out

    def _statements_to_close(self, statement: PreparedStatement) -> list[bytes]:
        """The statement itself too, when it is there: it may be an old one."""
        leaving = []
        if statement.name in self.statements or statement.name in self._stale:
            self.statements.pop(statement.name, None)
            self._stale.discard(statement.name)
            leaving.append(statement.name)
        if len(self.statements) >= self.max_statements:
            leaving.append(self.statements.popitem(last=False)[0])
        return leaving

    def mark_stale(self, name: bytes) -> None:
        """Whether Postgres has it is not known."""
        self.statements.pop(name, None)
        self._stale.add(name)
        if len(self._stale) > _MOST_STALE:
            self.is_dirty = self.has_sql_prepared = True

    def reset(self, client_statements: Collection[bytes]) -> list[bytes] | None:
        """Nothing is left of whoever had the member; which statements must be closed for that, None: all.

        The next client sees the texts of all that there are, so only its `own` are spared.
        """
        spared: list[bytes] = []
        if self.statements and client_statements and not self.has_sql_prepared and self._unused < _MOST_UNUSED:
            spared = [name for name in islice(reversed(self.statements), _MOST_SPARED) if name in client_statements]
        self._unused += 1
        self.is_dirty = self.has_changed_settings = self.has_sql_prepared = self.has_changed_extensions = (
            self.has_set_seed
        ) = False
        self.local_sets = 0
        self.custom_settings.clear()
        if not any(self.statements[name] >= _WORTH_SPARING for name in spared):
            self.forget_statements()
            return None
        return self._keep_only(spared)

    def _keep_only(self, spared: list[bytes]) -> list[bytes]:
        """No others are held any longer; which those are."""
        leaving = list(self.statements.keys() - spared) if len(spared) < len(self.statements) else []
        for name in leaving:
            del self.statements[name]
        leaving += self._stale
        self._stale.clear()
        self.changed_statements.difference_update(leaving)
        return leaving

    def forget_statements(self) -> None:
        """It holds no statements any longer, but for the one without a name."""
        self.statements.clear()
        self.changed_statements.clear()
        self._stale.clear()

    def invalidate_statements(self) -> None:
        """Plans of statements may not fit their tables any longer: each is made again when it is needed."""
        self._stale.update(self.statements)
        self.statements.clear()
