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

from bough.gateway.wire.refusals import HOLDING, LISTENING, LOCKING, PREPARING, TEMPORARY, Refusal
from bough.gateway.wire.sql import calls, folded, is_name, name, statements


@dataclass(frozen=True, slots=True)
class Look:
    refusal: Refusal | None = None  # Postgres shall raise this instead of running the text
    touches_settings: bool = False  # the session's settings may be others afterwards
    local_sets: int = 0  # SET LOCAL, SET TRANSACTION: their command tag is SET too, yet the session keeps nothing
    dirties: bool = False  # leaves something that must go when the transaction ends
    prepares: bool = False  # by SQL: then DISCARD ALL is the way to clean
    spoils: bool = False  # no cleaning helps: the connection has to be closed afterwards
    deallocates: tuple[bytes, ...] = ()  # prepared statements, by their names as Postgres folds them
    forgets_all: bool = False  # no prepared statement is left
    changes_extensions: bool = False  # perhaps: it says the word
    seeds: bool = False  # perhaps: random() may give what the client chose
    custom_settings: tuple[bytes, ...] = ()  # touched by name and with a dot in it: `pg_settings` does not show these


PLAIN = Look()
UNREAD = Look(touches_settings=True, dirties=True, prepares=True, spoils=True)  # of what is too long to be taken apart
LONGEST = 1 << 18

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


def look(text: bytes, *, alone: bool) -> Look:
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
        found = _seen(statements(text), alone) if len(text) <= LONGEST else UNREAD
        return found if found.spoils else _with_words(found, low)
    return _with_words(PLAIN, low) if "extension" in low or "seed" in low else PLAIN


def _with_words(found: Look, low: str) -> Look:
    """These count wherever they stand: also in a text that a DO block or a function is given to run."""
    changes_extensions, seeds = "extension" in low, "seed" in low
    if not (changes_extensions or seeds):
        return found
    return replace(found, changes_extensions=changes_extensions, seeds=seeds)


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


def _seen(found: list[list[str]], alone: bool) -> Look:
    only = len(found) == 1
    looks = [each for one in found for each in (_by_words(one, alone and only), *_by_calls(one)) if each is not PLAIN]
    for each in looks:
        if each.refusal is not None:
            return each
    if only and len(looks) == 1:
        return looks[0]
    together = Look(
        touches_settings=any(each.touches_settings for each in looks),
        local_sets=sum(each.local_sets for each in looks),
        dirties=any(each.dirties for each in looks),
        prepares=any(each.prepares for each in looks),
        spoils=any(each.spoils for each in looks),
        deallocates=tuple(name for each in looks for name in each.deallocates),
        forgets_all=any(each.forgets_all for each in looks),
        custom_settings=tuple(dict.fromkeys(name for each in looks for name in each.custom_settings)),
    )
    return PLAIN if together == PLAIN else together


def _by_words(statement: list[str], alone: bool) -> Look:
    lingering = _lingering(statement)
    if lingering is not None:
        if alone and not _drops_on_commit(statement):
            return Look(lingering)
        return Look(dirties=True, prepares=lingering is PREPARING)
    seen = PLAIN
    match statement:
        case ["set", *words] if words:
            seen = _set(words)
        case ["reset", *words] if words:
            seen = _touched("".join(name(word) for word in words))
        case ["listen", _]:
            seen = Look(LISTENING)
        case ["load", _]:
            seen = Look(spoils=True)
        case ["discard", "all"]:
            seen = Look(touches_settings=True, forgets_all=True)
        case ["deallocate", "all"] | ["deallocate", "prepare", "all"]:
            seen = Look(forgets_all=True)
        case ["deallocate", given] | ["deallocate", "prepare", given] if is_name(given):
            seen = Look(deallocates=(folded(given),))
    return seen


def _lingering(statement: list[str]) -> Refusal | None:
    """Why a statement that leaves something behind makes no sense without a transaction around it."""
    match statement:
        case ["create", *rest] if _creates_temporary(rest):
            return TEMPORARY
        case ["select" | "with" | "explain" | "(", *_] if _selects_into_temporary(statement):
            return TEMPORARY
        case ["prepare", given, following, *_] if given != "transaction" or following[0] not in "'$":
            return PREPARING
        case ["declare", *rest] if _is_held(rest):
            return HOLDING
    return None


def _set(words: list[str]) -> Look:
    word, sign = words[0], words[1:2]
    if sign not in (["."], ["="], ["to"]):  # else it is no keyword but a setting of that name
        if word in ("local", "transaction"):
            return Look(local_sets=1)
        if word == "constraints":
            return PLAIN
        if word == "session":
            words = words[1:]
    return _touched("".join(name(word) for word in takewhile(lambda word: word not in ("=", "to"), words)))


def _touched(setting: str) -> Look:
    custom = (setting.encode("latin-1").lower(),) if "." in setting else ()
    return Look(touches_settings=True, custom_settings=custom)


def _is_held(words: list[str]) -> bool:
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
    return kind in ("temp", "temporary") and rest != [] and is_name(rest[0]) and rest[0] not in _NO_TABLE


def _names_temporary_schema(words: list[str]) -> bool:
    return any(name(word) == "pg_temp" and sign == "." for word, sign in pairwise(words))


def _by_calls(statement: list[str]) -> list[Look]:
    if not _runs(statement):
        return []
    looks = []
    for call in calls(statement):
        if call.function in _DBLINK:  # an extension's, so in any schema
            looks.append(Look(spoils=True))
        elif call.schema in ("", "pg_catalog"):
            if call.function in LOCKING:
                return [Look(LOCKING[call.function])]
            if call.function == "set_config" and not (call.commas == 2 and call.ends_in_true()):
                looks.append(_touched(call.first_literal()))
    return looks


def _runs(statement: list[str]) -> bool:
    """Whether functions that it names are called, and not only spoken of."""
    if statement[0] == "create":
        return "table" in statement[1:5] or "materialized" in statement[1:5]
    return statement[0] not in _NO_RUN
