"""A server connection that belongs to a pool: lent to one client for a transaction, then given back.

It stays the last client's for a while. Whoever else gets it gets it clean: the cleaning goes out in front
of the new client's bytes. Settings that a client brings along are restored, and known to be, before any of
its bytes go out. Where no cleaning is enough it is closed.
"""

import struct
from collections.abc import Collection
from typing import Protocol

from bough.gateway import cancel
from bough.gateway.backend import Backend
from bough.gateway.channel import Lost
from bough.gateway.errors import BACKEND_DIED, no_postgres, not_clean
from bough.gateway.pooling import cleaning, extensions
from bough.gateway.pooling.borrower import Borrower
from bough.gateway.pooling.extensions import Extensions
from bough.gateway.pooling.ledger import IDLE, Ledger
from bough.gateway.pooling.link import Link
from bough.gateway.pooling.replies import Replies
from bough.gateway.pooling.reported import Reported
from bough.gateway.wire.malformed import Malformed
from bough.gateway.wire.messages import READY_HEAD

_BUFFER = bytearray(65536)
_ROOM = memoryview(_BUFFER)
_READ_AT_ONCE = 8192  # bytes that Postgres takes from its socket in one go
_JUST_NOW = 0.1  # seconds; what ran longer may have been ended on purpose
_RESEED_SECONDS = 0.1  # that a seed may stay which a function has set unseen; to end it each time costs a tenth more
_NAME = b"application_name"
_UNASKED = 256 * 1024  # bytes that it may say while nobody has it
# What a compute says that is not Postgres any longer; whoever took its socket may say anything.
_NONSENSE = (Malformed, IndexError, ValueError, struct.error)


class Home(Protocol):
    """The pool that it belongs to."""

    extensions: Extensions

    def given_back(self, member: "Member") -> None: ...

    def gone(self, member: "Member") -> None: ...


# Why we ask it something ourselves. Every transaction compares these, and members of an enumeration are found slowly.
_NOTHING = 0
_CLEAN = 1  # in front of a client's bytes
_PREPARE = 2  # the client's bytes wait for it
_READ_SETTINGS = 3  # the client is told that its transaction is over when they are known
_RENAME = 4  # a reset has left it with the name of whoever it was opened for
_ROLL_BACK = 5
_TIDY = 6  # nobody has it


class Member(Link):
    def __init__(self, backend: Backend, reported: Reported, home: Home, name: bytes, most_statements: int) -> None:
        super().__init__(backend.without_greeting())
        self._home = home
        self.name = name  # application_name that it was opened with
        self.ledger = Ledger(most_statements)
        self.replies = Replies(self.ledger, self)
        self.reported = reported
        self.client: Borrower | None = None
        self.owner: Borrower | None = None  # who had it last, or has it
        self.is_clean = True
        self.is_retired = False  # it is closed when it comes back
        self.keeps = False  # what the session has set cannot be read; so it stays the client's
        self.sends = self._sent = 0  # since it was lent: how often, and how many bytes
        self.born = self.rested = self._lent = self._loop.time()
        self._is_lost = False  # nobody reads what we send
        self._own = _NOTHING
        self._reseeded = 0.0
        self._checks = False  # what is asked says too whether cleaning is enough
        self._ready = b""  # kept back from the client
        self._before = b""  # goes out with the client's next bytes
        self._unasked = 0  # bytes that it said while nobody had it

    @property
    def is_quiet_in_transaction(self) -> bool:
        return self.client is not None and self.ledger.status != IDLE and not self.ledger.expected

    @property
    def is_ending(self) -> bool:
        """Postgres has said so. It closes the connection only later; whoever got it meanwhile would lose its words."""
        return bool(self.replies.last_words)

    # Lending.

    def may_pass_to(self, client: Borrower) -> bool:
        """Whether cleaning is enough for that, as far as it is known."""
        if self.is_clean or self.owner is client or not self._home.extensions.keep_state:
            return True
        return self._must_check

    def lend(self, client: Borrower) -> bool:
        """Whether the client's bytes may come now; otherwise it is told to go on."""
        self.client = client
        self.sends = self._sent = 0
        self._is_lost = False
        self._unasked = 0
        self._lent = self._loop.time()
        self.replies.is_first, self.replies.last_words, self.replies.is_shut_down = True, b"", False
        if self.owner is client and not self.ledger.is_dirty:
            return True
        self.owner, self.keeps = client, False
        self.ledger.unnamed, self.ledger.has_unnamed = client.unnamed, False
        asked = [] if self.is_clean else self._cleaning(client.translation.prepared.held, checks=self._must_check)
        wanted = client.settings if client.name == self.name else {_NAME: client.name, **client.settings}
        if wanted:
            asked.append(cleaning.restore(wanted))
        self.is_clean = False
        if client.settings or self._checks:
            self._ask(_PREPARE, *asked)
            return False
        self._before = b"".join(asked)
        self.replies.own = len(asked)
        self._own = _CLEAN if asked else _NOTHING
        if not asked and self.reported is not client.reported:
            self._tell_differences(client)
        return True

    def send(self, data: memoryview | bytes | bytearray) -> None:
        """From the client that has it."""
        if self._before:
            data = self._before + data
            self._before = b""
        self.sends += 1
        self._sent += len(data)
        if not self._outlet.write(data) and self.client is not None:
            self.client.go_slow()

    def abandon(self) -> None:
        """The client is gone, whatever it was in the middle of."""
        if self.is_closed:
            return
        client, self.client, self.owner = self.client, None, None
        self.resume()
        ledger = self.ledger
        is_asked = bool(ledger.expected) or ledger.unsynced
        if is_asked or self._before or self._outlet.unsent or (client is not None and client.requests.skip):
            if is_asked:
                cancel.soon(self.backend)
            self.close()
        elif self._own is not _NOTHING:
            pass  # it is given back when that is done
        elif ledger.status == IDLE:
            self._give_back()
        else:
            self._ask(_ROLL_BACK, cleaning.ROLLBACK)

    def tidy(self) -> None:
        """Clean it while nobody has it; it is given back afterwards."""
        self.owner = None
        self._ask(_TIDY, *self._cleaning((), checks=True))

    # What it says.

    def _readable(self) -> None:
        try:
            count = self.backend.channel.receive(_ROOM)
        except Lost as lost:
            return self._ended(is_unread=isinstance(lost.__cause__, ConnectionResetError))
        if count is None:
            return None
        if count == 0:
            return self._ended(is_unread=False)
        out = self._walked(count)
        client = self.client
        if client is None and self.is_ending:
            self.close()
        if client is None or self.is_closed:
            return None
        ledger = self.ledger
        goes_on = bool(client.held)  # then it keeps the member, and its settings are read at the next end
        if ledger.is_touched and ledger.is_free and not (goes_on or client.requests.skip) and out[-6:-1] == READY_HEAD:
            self._ready = bytes(out[-6:])
            out = out[:-6]
        if out and not client.hear(out):
            self.pause()
        if goes_on and self._own is _NOTHING and ledger.is_answered:
            client.go_on()
        if ledger.status != IDLE:
            self.rested = self._loop.time()
            if client.is_done and not ledger.expected:
                client.lose(b"")
        else:
            self.settle()
        return None

    def settle(self) -> None:
        """Give it back, if the client has nothing under way."""
        client, ledger = self.client, self.ledger
        if client is None or not ledger.is_free or self._own is not _NOTHING or client.requests.skip:
            return
        if ledger.is_touched:
            ledger.is_touched = False
            ledger.local_sets = 0
            custom = {name for name in client.settings if b"." in name} | ledger.custom_settings
            self._ask(_READ_SETTINGS, cleaning.read_settings(custom))
        elif not self.keeps and not self._outlet.unsent:
            self.client = None
            if self._is_paused:
                self.resume()
            client.let_go()
            if self._cancels:
                self._give_back()
            else:
                self._home.given_back(self)

    def _ended(self, *, is_unread: bool) -> None:
        client, self.client = self.client, None
        self.close()
        if client is None:
            return
        replies = self.replies
        is_unread = self._is_lost or (is_unread and self._sent <= _READ_AT_ONCE)
        is_young = self._loop.time() - self._lent < _JUST_NOW
        # A session that had to be closed ends itself while it is cleaned, and has run nothing of the client's.
        is_undone = is_unread or (replies.own > 0 and client.can_repeat)
        is_undone = is_undone or (replies.is_shut_down and is_young and client.may_repeat())
        if not self.sends or (self.sends == 1 and is_undone and (replies.is_first or replies.is_shut_down)):
            self.ledger.void_all()
            client.again()
        else:
            client.lose(replies.last_words or (BACKEND_DIED.encoded() if replies.is_between else b""))

    def _walked(self, count: int) -> memoryview | bytes:
        if self.client is None:
            self._unasked += count
            if self._unasked > _UNASKED:
                self.close()
                return b""
        try:
            return self.replies.walk(_ROOM, _BUFFER, count)
        except _NONSENSE as error:
            self._broken(error)
            return b""

    def _broken(self, error: Exception) -> None:
        client, self.client = self.client, None
        self.close()
        if client is not None:
            client.lose(no_postgres(str(error)).encoded() if self.replies.is_between else b"")

    def forgot(self) -> None:
        self.ledger.forget()
        if self.client is not None:
            self.client.translation.forget_all()

    def in_their_words(self, error: bytes) -> bytes:
        return error if self.client is None else self.client.translation.prepared.in_their_words(error)

    def hinted(self, error: bytes) -> bytes | None:
        return None if self.client is None else self.client.hinted(error)

    def reports(self, body: bytes) -> None:
        self.reported = self.reported.changed(body)
        if self.client is not None and self._own is _NOTHING:
            self.client.reported = self.reported

    def _tell_differences(self, client: Borrower) -> None:
        client.hear(self.reported.since(client.reported))
        client.reported = self.reported

    # What we ask it ourselves.

    def _cleaning(self, own: Collection[bytes], *, checks: bool) -> list[bytes]:
        """For whoever has these `own` statements. Whoever `checks` must wait for the answer before anybody has it."""
        self._checks = checks
        now = self._loop.time()
        reseeds = self.ledger.seeds or now - self._reseeded > _RESEED_SECONDS
        asked = [cleaning.clean(self.ledger.cleaned(own))]
        if reseeds:
            self._reseeded = now
            asked.append(cleaning.reseed())
        if checks:
            self._home.extensions.ask(now)
            asked.append(extensions.CHECK)
        return asked

    @property
    def _must_check(self) -> bool:
        """Whether it is not known if cleaning is enough."""
        return self.ledger.changes_extensions or not self._home.extensions.is_known(self._loop.time())

    def _learn(self, rows: list[bytes]) -> bool:
        """Whether cleaning was enough, as far as it was checked."""
        if not self._checks:
            return True
        self._checks = False
        keep_state = extensions.keep_state(rows)
        self._home.extensions.learn(keep_state=keep_state)
        return not keep_state

    def _ask(self, own: int, *asked: bytes) -> None:
        self._own = own
        self.ledger.has_unnamed = False  # a simple query destroys it
        self.replies.own = len(asked)
        if not self._outlet.write(b"".join(asked)) and self.client is not None:
            self.client.go_slow()

    def answered(self) -> None:
        own, self._own = self._own, _NOTHING
        failure, rows = self.replies.own_answers()
        client = self.client
        if own is _READ_SETTINGS and client is not None:
            self.keeps = failure is not None
            if failure is None:
                client.keep(cleaning.settings(rows))
            if client.name != self.name and _NAME not in client.settings:
                self._ask(_RENAME, cleaning.restore({_NAME: client.name}))
            else:
                self._say_ready(client)
        elif failure is not None or not self._learn(rows):
            self.client = None
            self.close()
            if client is not None and failure is not None:
                client.lose(not_clean(failure).encoded())
            elif client is not None:
                client.again()
        elif client is None:
            self.is_clean = own is _TIDY
            self._give_back()
        else:
            if self.reported is not client.reported:
                self._tell_differences(client)
            if own is _PREPARE:
                client.go_on()
            elif own is _RENAME:
                self._say_ready(client)

    def _say_ready(self, client: Borrower) -> None:
        ready, self._ready = self._ready, b""
        if ready:
            client.hear(ready)
        self.settle()

    # What becomes of the connection.

    def _flushed(self) -> None:
        if self.client is not None:
            self.client.go_fast()
            self.settle()

    def _unreachable(self) -> None:
        self._is_lost = True  # the last words are still to be read

    def _free(self) -> None:
        self._home.given_back(self)

    def _gone(self) -> None:
        self._home.gone(self)
