"""What a server connection holds for its clients, and what they have left behind in its session."""

from collections import OrderedDict
from collections.abc import Collection
from itertools import islice

from bough.gateway.pooling.statements import PreparedStatement
from bough.gateway.wire.session_effects import SessionEffects

_MAX_STALE = 1000  # statements that Postgres may have and that are not relied on
# Keeping statements makes a reset slower. After so many resets without a use it has cost as much as preparing one.
_MAX_UNUSED_RESETS = 8
_MAX_KEPT = 50  # statements per reset: Postgres has to look at each of them
_MIN_KEPT_BYTES = 100  # preparing a shorter statement again costs Postgres no more than keeping it


class SessionState:
    def __init__(self, max_statements: int) -> None:
        self.max_statements = max_statements
        self.statements: OrderedDict[bytes, int] = OrderedDict()  # names and lengths, least recently used first
        self._unused_resets = 0  # since one of the statements was used
        self.changed_statements: set[bytes] = set()  # that have other columns here than clients were sent
        self.has_changed_settings = False  # perhaps
        self.is_dirty = False  # the session must be reset even for the same client
        self.is_unusable = False  # no reset is sufficient
        self.has_sql_prepared = False
        self.has_changed_extensions = False
        self.has_set_seed = False
        self.local_sets = 0
        self.custom_settings: set[bytes] = set()  # changed ones that pg_settings does not list
        self._stale: set[bytes] = set()

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

    def store_statement(self, statement: PreparedStatement) -> list[bytes]:
        """Record the statement as held; return the names to close before it is prepared."""
        closed = []
        if statement.name in self.statements or statement.name in self._stale:
            self.statements.pop(statement.name, None)
            self._stale.discard(statement.name)
            closed.append(statement.name)
        if len(self.statements) >= self.max_statements:
            closed.append(self.statements.popitem(last=False)[0])
        self.statements[statement.name] = len(statement.body)
        self._unused_resets = 0
        return closed

    def mark_stale(self, name: bytes) -> None:
        """Record that it is not known whether Postgres has this statement."""
        self.statements.pop(name, None)
        self._stale.add(name)
        if len(self._stale) > _MAX_STALE:
            self.is_dirty = self.has_sql_prepared = True

    def reset(self, client_statements: Collection[bytes]) -> list[bytes] | None:
        """Reset the state for the next client; return the statements that must be closed, None: all.

        A client can see the text of every statement in its session, so only its own statements are kept.
        """
        kept: list[bytes] = []
        if (
            self.statements
            and client_statements
            and not self.has_sql_prepared
            and self._unused_resets < _MAX_UNUSED_RESETS
        ):
            kept = [name for name in islice(reversed(self.statements), _MAX_KEPT) if name in client_statements]
        self._unused_resets += 1
        self.is_dirty = self.has_changed_settings = self.has_sql_prepared = self.has_changed_extensions = (
            self.has_set_seed
        ) = False
        self.local_sets = 0
        self.custom_settings.clear()
        if not any(self.statements[name] >= _MIN_KEPT_BYTES for name in kept):
            self.forget_statements()
            return None
        return self._keep_only(kept)

    def _keep_only(self, kept: list[bytes]) -> list[bytes]:
        """Drop all other statements and return their names."""
        dropped = list(self.statements.keys() - kept) if len(kept) < len(self.statements) else []
        for name in dropped:
            del self.statements[name]
        dropped += self._stale
        self._stale.clear()
        self.changed_statements.difference_update(dropped)
        return dropped

    def forget_statements(self) -> None:
        """Forget all named statements."""
        self.statements.clear()
        self.changed_statements.clear()
        self._stale.clear()

    def invalidate_statements(self) -> None:
        """Prepare each statement again when it is next used: its plan may no longer fit the tables."""
        self._stale.update(self.statements)
        self.statements.clear()
