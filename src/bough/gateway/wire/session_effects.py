"""Finds the effects of SQL statements on their session, as far as their text shows them.

A pooled client has a session only for one transaction. Statements that need a longer session are rejected. The
effects of other statements are recorded, so that the state can be restored or reset later. Effects inside functions
and DO blocks are not found, and need not be: a session is always reset before another client gets it.

`find_session_effects` sees every statement, so it must dismiss nearly all of them with fast checks: the first word,
and a few words that matter anywhere. Only statements that may have effects are tokenized.
"""

import re
from dataclasses import dataclass, replace
from itertools import takewhile

from bough.gateway.wire.rejections import (
    CURSOR_WITH_HOLD,
    LISTEN,
    SESSION_LOCKS,
    SQL_PREPARE,
    TEMPORARY_OBJECT,
    StatementRejection,
)
from bough.gateway.wire.sql import find_calls, is_identifier, split_statements, truncate_identifier, unquote_identifier
from bough.gateway.wire.temporary_objects import (
    creates_temporary,
    drops_on_commit,
    may_be_temporary,
    selects_into_temporary,
)


@dataclass(frozen=True, slots=True)
class SessionEffects:
    rejection: StatementRejection | None = None  # the error to raise instead of running the statement
    changes_settings: bool = False  # perhaps
    local_sets: int = 0  # SET LOCAL and SET TRANSACTION: the command tag is SET, but they end with the transaction
    leaves_state: bool = False  # that must be reset when the transaction ends
    prepares_by_sql: bool = False  # then only DISCARD ALL resets the session
    prevents_reuse: bool = False  # no reset is sufficient: the server connection must be closed afterwards
    deallocates: tuple[bytes, ...] = ()  # names of prepared statements, as Postgres folds them
    deallocates_all: bool = False
    changes_extensions: bool = False  # perhaps: the text contains the word
    sets_random_seed: bool = False  # perhaps: the text contains the word
    custom_settings: tuple[bytes, ...] = ()  # changed ones with a dot in the name, which `pg_settings` does not show


NO_EFFECTS = SessionEffects()
# The effects of a text that is too long to be tokenized.
UNKNOWN_EFFECTS = SessionEffects(changes_settings=True, leaves_state=True, prepares_by_sql=True, prevents_reuse=True)
MAX_PARSED_BYTES = 1 << 18

_FIRST_WORDS = "set|reset|listen|prepare|declare|load|deallocate|discard"
_FIRST_LETTERS = frozenset(word[:3] for word in _FIRST_WORDS.split("|"))
_SPACE = r"[ \t\n\r\f\v]*"
_LATER = re.compile(rf";{_SPACE}(?:(?:{_FIRST_WORDS})(?![a-z0-9_$\x80-\xff])|--|/\*)")
# Nested comments have a star inside or a slash before the end, and are left to the tokenizer.
_COMMENTS = re.compile(rf"(?:(?:--[^\n\r]*|/\*(?:[^*]*[^*/])?\*/){_SPACE}){{1,9}}")

_CALLS_NOTHING = frozenset(["alter", "comment", "drop", "grant", "revoke"])  # these only name functions
_DBLINK = ("dblink_connect", "dblink_connect_u")


def find_session_effects(text: bytes, *, is_transaction: bool) -> SessionEffects:
    """`text` has no terminating zero. `is_transaction`: no transaction is open, so it is a transaction of its own."""
    low = text.lower().decode("latin-1")  # searching a str takes a third of the time of searching bytes
    if (
        low[:3] in _FIRST_LETTERS
        or "advisory_lock" in low
        or "set_config" in low
        or "dblink_connect" in low
        or ("temp" in low and may_be_temporary(low))
        or (";" in low and _LATER.search(low))
        or (low < "a" and _may_begin_with_first_word(low))
    ):
        effects = (
            _combine_effects(split_statements(text), is_transaction)
            if len(text) <= MAX_PARSED_BYTES
            else UNKNOWN_EFFECTS
        )
        return effects if effects.prevents_reuse else _with_keywords(effects, low)
    return _with_keywords(NO_EFFECTS, low) if "extension" in low or "seed" in low else NO_EFFECTS


def _with_keywords(effects: SessionEffects, low: str) -> SessionEffects:
    """Add effects of words that count anywhere, such as inside the text of a DO block."""
    has_extension, has_seed = "extension" in low, "seed" in low
    if not (has_extension or has_seed):
        return effects
    return replace(effects, changes_extensions=has_extension, sets_random_seed=has_seed)


def _may_begin_with_first_word(low: str) -> bool:
    """Skip white space and comments, and check the first word after them."""
    rest = low.lstrip()
    comments = _COMMENTS.match(rest) if rest[:1] in "-/" else None
    at = comments.end() if comments else 0
    return rest[at : at + 3] in _FIRST_LETTERS or rest[at : at + 2] in ("--", "/*")


def _combine_effects(statements: list[list[str]], is_transaction: bool) -> SessionEffects:
    is_single = len(statements) == 1
    found = [
        each
        for statement in statements
        for each in (_effects_of_statement(statement, is_transaction and is_single), *_effects_of_calls(statement))
        if each is not NO_EFFECTS
    ]
    for each in found:
        if each.rejection is not None:
            return each
    if is_single and len(found) == 1:
        return found[0]
    combined = SessionEffects(
        changes_settings=any(each.changes_settings for each in found),
        local_sets=sum(each.local_sets for each in found),
        leaves_state=any(each.leaves_state for each in found),
        prepares_by_sql=any(each.prepares_by_sql for each in found),
        prevents_reuse=any(each.prevents_reuse for each in found),
        deallocates=tuple(name for each in found for name in each.deallocates),
        deallocates_all=any(each.deallocates_all for each in found),
        custom_settings=tuple(dict.fromkeys(name for each in found for name in each.custom_settings)),
    )
    return NO_EFFECTS if combined == NO_EFFECTS else combined


def _effects_of_statement(statement: list[str], is_transaction: bool) -> SessionEffects:
    rejection = _find_rejection(statement)
    if rejection is not None:
        if is_transaction and not drops_on_commit(statement):
            return SessionEffects(rejection)
        return SessionEffects(leaves_state=True, prepares_by_sql=rejection is SQL_PREPARE)
    effects = NO_EFFECTS
    match statement:
        case ["set", *words] if words:
            effects = _effects_of_set(words)
        case ["reset", *words] if words:
            effects = _changed_setting("".join(unquote_identifier(word) for word in words))
        case ["listen", _]:
            effects = SessionEffects(LISTEN)
        case ["load", _]:
            effects = SessionEffects(prevents_reuse=True)
        case ["discard", "all"]:
            effects = SessionEffects(changes_settings=True, deallocates_all=True)
        case ["deallocate", "all"] | ["deallocate", "prepare", "all"]:
            effects = SessionEffects(deallocates_all=True)
        case ["deallocate", name] | ["deallocate", "prepare", name] if is_identifier(name):
            effects = SessionEffects(deallocates=(truncate_identifier(name),))
    return effects


def _find_rejection(statement: list[str]) -> StatementRejection | None:
    """Return why a statement that leaves session state is rejected outside of a transaction block."""
    match statement:
        case ["create", *rest] if creates_temporary(rest):
            return TEMPORARY_OBJECT
        case ["select" | "with" | "explain" | "(", *_] if selects_into_temporary(statement):
            return TEMPORARY_OBJECT
        case ["prepare", name, following, *_] if name != "transaction" or following[0] not in "'$":
            return SQL_PREPARE
        case ["declare", *rest] if _is_with_hold(rest):
            return CURSOR_WITH_HOLD
    return None


def _effects_of_set(words: list[str]) -> SessionEffects:
    word, following = words[0], words[1:2]
    if following not in (["."], ["="], ["to"]):  # otherwise the word is the name of a setting
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


def _effects_of_calls(statement: list[str]) -> list[SessionEffects]:
    if not _calls_functions(statement):
        return []
    found = []
    for call in find_calls(statement):
        if call.function in _DBLINK:  # a function of an extension, so in any schema
            found.append(SessionEffects(prevents_reuse=True))
        elif call.schema in ("", "pg_catalog"):
            if call.function in SESSION_LOCKS:
                return [SessionEffects(SESSION_LOCKS[call.function])]
            if call.function == "set_config" and not (call.commas == 2 and call.is_last_argument_true()):
                found.append(_changed_setting(call.first_literal()))
    return found


def _calls_functions(statement: list[str]) -> bool:
    """Whether the statement calls the functions that it names."""
    if statement[0] == "create":
        return "table" in statement[1:5] or "materialized" in statement[1:5]
    return statement[0] not in _CALLS_NOTHING
