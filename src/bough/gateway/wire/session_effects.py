"""What a statement does to its session, as far as its words tell.

A pooled client has a session only for a transaction. Statements that make no sense without one for longer are refused;
what others leave behind is noted, so that it can be carried along or cleaned away. What functions and DO blocks do
inside is not seen here, and need not be: a session that changes hands is always cleaned.

`look` is asked about every statement, so nearly all of them must be let go after a glance: at the words that statements
begin with, and for a few that matter anywhere. Only what may matter is taken apart.
"""

import re
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from bough.gateway.wire.rejections import (
    CURSOR_WITH_HOLD,
    LISTEN,
    SESSION_LOCKS,
    SQL_PREPARE,
    TEMPORARY_OBJECT,
    StatementRejection,
)
from bough.gateway.wire.sql import find_calls, is_identifier, split_statements, truncate_identifier, unquote_identifier


@dataclass(frozen=True, slots=True)
class SessionEffects:
    rejection: StatementRejection | None = None  # Postgres shall raise this instead of running the text
    changes_settings: bool = False  # the session's settings may be others afterwards
    local_sets: int = 0  # SET LOCAL, SET TRANSACTION: their command tag is SET too, yet the session keeps nothing
    leaves_state: bool = False  # leaves something that must go when the transaction ends
    prepares_by_sql: bool = False  # by SQL: then DISCARD ALL is the way to clean
    prevents_reuse: bool = False  # no cleaning helps: the connection has to be closed afterwards
    deallocates: tuple[bytes, ...] = ()  # prepared statements, by their names as Postgres folds them
    deallocates_all: bool = False  # no prepared statement is left
    changes_extensions: bool = False  # perhaps: it says the word
    sets_random_seed: bool = False  # perhaps: random() may give what the client chose
    custom_settings: tuple[bytes, ...] = ()  # touched by name and with a dot in it: `pg_settings` does not show these


NO_EFFECTS = SessionEffects()
UNKNOWN_EFFECTS = SessionEffects(
    changes_settings=True, leaves_state=True, prepares_by_sql=True, prevents_reuse=True
)  # of what is too long to be taken apart
MAX_PARSED_BYTES = 1 << 18

_BEGINNINGS = "set|reset|listen|prepare|declare|load|deallocate|discard"
_FIRST_LETTERS = frozenset(word[:3] for word in _BEGINNINGS.split("|"))
_SPACE = r"[ \t\n\r\f\v]*"
_LATER = re.compile(rf";{_SPACE}(?:(?:{_BEGINNINGS})(?![a-z0-9_$\x80-\xff])|--|/\*)")
# A comment that holds another has a star inside or a slash before its end; it is left to the scanner.
_COMMENTS = re.compile(rf"(?:(?:--[^\n\r]*|/\*(?:[^*]*[^*/])?\*/){_SPACE}){{1,9}}")
_TEMPORARY = re.compile(r'temp(?:orary)?[ \t\n\r\f\v"/-]')
_BEFORE_TEMPORARY = ("create", "replace", "local", "global", "into", "*/")

_NO_RUN = frozenset(["alter", "comment", "drop", "grant", "revoke"])  # functions are only named in these
_DBLINK = ("dblink_connect", "dblink_connect_u")
_NO_TABLE = frozenset("from where group having window union intersect except order limit offset fetch for".split())


def find_session_effects(text: bytes, *, is_transaction: bool) -> SessionEffects:
    """`text` is without its closing zero. `alone`: nothing is open or under way, so it is a transaction by itself."""
    low = text.lower().decode("latin-1")  # finding words in str costs a third of what it costs in bytes
    if (
        low[:3] in _FIRST_LETTERS
        or "advisory_lock" in low
        or "set_config" in low
        or "dblink_connect" in low
        or ("temp" in low and _may_be_temporary(low))
        or (";" in low and _LATER.search(low))
        or (low < "a" and _may_begin(low))
    ):
        found = (
            _combine_effects(split_statements(text), is_transaction)
            if len(text) <= MAX_PARSED_BYTES
            else UNKNOWN_EFFECTS
        )
        return found if found.prevents_reuse else _with_keywords(found, low)
    return _with_keywords(NO_EFFECTS, low) if "extension" in low or "seed" in low else NO_EFFECTS


def _with_keywords(found: SessionEffects, low: str) -> SessionEffects:
    """These count wherever they stand: also in a text that a DO block or a function is given to run."""
    changes_extensions, seeds = "extension" in low, "seed" in low
    if not (changes_extensions or seeds):
        return found
    return replace(found, changes_extensions=changes_extensions, sets_random_seed=seeds)


def _may_begin(low: str) -> bool:
    """Behind spaces and comments."""
    rest = low.lstrip()
    comments = _COMMENTS.match(rest) if rest[:1] in "-/" else None
    at = comments.end() if comments else 0
    return rest[at : at + 3] in _FIRST_LETTERS or rest[at : at + 2] in ("--", "/*")


def _may_be_temporary(low: str) -> bool:
    """`temp` is in many words, CREATE TEMP and INTO TEMP in few texts."""
    at = low.find("temp")
    while at >= 0:
        if low[at - 3 : at] == "pg_":
            return True
        if _TEMPORARY.match(low, at):
            before = low[max(at - 40, 0) : at].rstrip()
            if before.endswith(_BEFORE_TEMPORARY) or (at > 40 and len(before) < 8) or "--" in low:
                return True
        at = low.find("temp", at + 4)
    return False


def _combine_effects(found: list[list[str]], alone: bool) -> SessionEffects:
    only = len(found) == 1
    looks = [
        each
        for one in found
        for each in (_effects_of_statement(one, alone and only), *_effects_of_calls(one))
        if each is not NO_EFFECTS
    ]
    for each in looks:
        if each.rejection is not None:
            return each
    if only and len(looks) == 1:
        return looks[0]
    together = SessionEffects(
        changes_settings=any(each.changes_settings for each in looks),
        local_sets=sum(each.local_sets for each in looks),
        leaves_state=any(each.leaves_state for each in looks),
        prepares_by_sql=any(each.prepares_by_sql for each in looks),
        prevents_reuse=any(each.prevents_reuse for each in looks),
        deallocates=tuple(name for each in looks for name in each.deallocates),
        deallocates_all=any(each.deallocates_all for each in looks),
        custom_settings=tuple(dict.fromkeys(name for each in looks for name in each.custom_settings)),
    )
    return NO_EFFECTS if together == NO_EFFECTS else together


def _effects_of_statement(statement: list[str], alone: bool) -> SessionEffects:
    lingering = _find_rejection(statement)
    if lingering is not None:
        if alone and not _drops_on_commit(statement):
            return SessionEffects(lingering)
        return SessionEffects(leaves_state=True, prepares_by_sql=lingering is SQL_PREPARE)
    seen = NO_EFFECTS
    match statement:
        case ["set", *words] if words:
            seen = _set(words)
        case ["reset", *words] if words:
            seen = _changed_setting("".join(unquote_identifier(word) for word in words))
        case ["listen", _]:
            seen = SessionEffects(LISTEN)
        case ["load", _]:
            seen = SessionEffects(prevents_reuse=True)
        case ["discard", "all"]:
            seen = SessionEffects(changes_settings=True, deallocates_all=True)
        case ["deallocate", "all"] | ["deallocate", "prepare", "all"]:
            seen = SessionEffects(deallocates_all=True)
        case ["deallocate", given] | ["deallocate", "prepare", given] if is_identifier(given):
            seen = SessionEffects(deallocates=(truncate_identifier(given),))
    return seen


def _find_rejection(statement: list[str]) -> StatementRejection | None:
    """Why a statement that leaves something behind makes no sense without a transaction around it."""
    match statement:
        case ["create", *rest] if _creates_temporary(rest):
            return TEMPORARY_OBJECT
        case ["select" | "with" | "explain" | "(", *_] if _selects_into_temporary(statement):
            return TEMPORARY_OBJECT
        case ["prepare", given, following, *_] if given != "transaction" or following[0] not in "'$":
            return SQL_PREPARE
        case ["declare", *rest] if _is_with_hold(rest):
            return CURSOR_WITH_HOLD
    return None


def _set(words: list[str]) -> SessionEffects:
    word, sign = words[0], words[1:2]
    if sign not in (["."], ["="], ["to"]):  # else it is no keyword but a setting of that name
        if word in ("local", "transaction"):
            return SessionEffects(local_sets=1)
        if word == "constraints":
            return NO_EFFECTS
        if word == "session":
            words = words[1:]
    return _changed_setting(
        "".join(unquote_identifier(word) for word in takewhile(lambda word: word not in ("=", "to"), words))
    )


def _changed_setting(setting: str) -> SessionEffects:
    custom = (setting.encode("latin-1").lower(),) if "." in setting else ()
    return SessionEffects(changes_settings=True, custom_settings=custom)


def _is_with_hold(words: list[str]) -> bool:
    options = list(takewhile(lambda word: word != "for", words))
    return options[-2:] == ["with", "hold"]


def _creates_temporary(words: list[str]) -> bool:
    head = list(takewhile(lambda word: word not in ("(", "as"), words))
    return _is_temporary([word for word in head[:5] if word not in ("or", "replace")]) or _names_temporary_schema(head)


def _drops_on_commit(words: list[str]) -> bool:
    return ("on", "commit", "drop") in zip(words, words[1:], words[2:], strict=False)


def _selects_into_temporary(words: list[str]) -> bool:
    for at, word in enumerate(words):
        if word == "into" and words[at - 1] not in ("insert", "merge"):
            table = words[at + 1 : at + 4]
            if _is_temporary(table) or _names_temporary_schema(table[:2]):
                return True
    return False


def _is_temporary(words: list[str]) -> bool:
    """Whether they begin with the keyword, and not with a table of that name."""
    kind, *rest = [word for word in words if word not in ("local", "global")] or [""]
    return kind in ("temp", "temporary") and rest != [] and is_identifier(rest[0]) and rest[0] not in _NO_TABLE


def _names_temporary_schema(words: list[str]) -> bool:
    return any(unquote_identifier(word) == "pg_temp" and sign == "." for word, sign in pairwise(words))


def _effects_of_calls(statement: list[str]) -> list[SessionEffects]:
    if not _runs(statement):
        return []
    looks = []
    for call in find_calls(statement):
        if call.function in _DBLINK:  # an extension's, so in any schema
            looks.append(SessionEffects(prevents_reuse=True))
        elif call.schema in ("", "pg_catalog"):
            if call.function in SESSION_LOCKS:
                return [SessionEffects(SESSION_LOCKS[call.function])]
            if call.function == "set_config" and not (call.commas == 2 and call.is_last_argument_true()):
                looks.append(_changed_setting(call.first_literal()))
    return looks


def _runs(statement: list[str]) -> bool:
    """Whether functions that it names are called, and not only spoken of."""
    if statement[0] == "create":
        return "table" in statement[1:5] or "materialized" in statement[1:5]
    return statement[0] not in _NO_RUN
