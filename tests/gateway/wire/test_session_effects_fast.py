"""The fast checks of a text find what the tokenizer would find, however the text is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.gateway.wire import session_effects
from bough.gateway.wire.session_effects import (
    MAX_PARSED_BYTES,
    NO_EFFECTS,
    UNKNOWN_EFFECTS,
    SessionEffects,
    find_session_effects,
)
from bough.gateway.wire.sql import split_statements
from gateway.wire.sample_statements import HARMLESS, REJECTED, SESSION_BOUND, SETTINGS, TRANSACTION_LOCAL

ALL = [
    *HARMLESS,
    *SETTINGS,
    *(text for _, text in TRANSACTION_LOCAL),
    *(text for _, text in (*REJECTED, *SESSION_BOUND)),
]


def effects_of(text: str, is_transaction: bool = True) -> SessionEffects:
    return find_session_effects(text.encode(), is_transaction=is_transaction)


@given(st.binary(), st.booleans())
def test_any_bytes_can_be_looked_at(text: bytes, is_transaction: bool) -> None:
    assert isinstance(find_session_effects(text, is_transaction=is_transaction), SessionEffects)


@pytest.mark.parametrize("rejected", [b"listen a", b"select pg_advisory_lock(1)", b"create temp table t ()"])
def test_what_is_too_long_to_be_taken_apart_is_cleaned_thoroughly(rejected: bytes) -> None:
    longest = rejected.ljust(MAX_PARSED_BYTES)
    assert find_session_effects(longest, is_transaction=True).rejection is not None
    assert find_session_effects(longest + b" ", is_transaction=True) is UNKNOWN_EFFECTS
    assert find_session_effects(b"select '" + b"x" * MAX_PARSED_BYTES + b"'", is_transaction=True) is NO_EFFECTS


gaps = st.sampled_from(
    [" ", "\n", "\t \f", "\r\n", "/**/", "/* set x */", "-- listen y\n", "--\r", "/* /* ' */ temp */", "/*/ */"]
)
sentences = st.sampled_from(
    """
    set x = 1 | set local x = 1 | reset all | listen a | unlisten * | load 'x' | discard all | discard temp
    deallocate a | deallocate prepare "b" | deallocate all | prepare a as select 1 | prepare transaction 'x'
    declare c cursor with hold for select 1 | declare c cursor for select 1 | create table temp ( a int )
    create or replace temporary view v as select 1 | create local temp table t ( ) on commit drop
    create table pg_temp . t ( ) | select 1 into global temporary table t from u | insert into temp values ( 1 )
    select * into temp from t | select pg_catalog . pg_try_advisory_lock ( 1 ) | select "pg_advisory_lock" ( 1 )
    select pg_advisory_xact_lock ( 1 ) | select set_config ( 'a' , 'b' , true ) | select set_config ( 'a' , $1 , $2 )
    select dblink_connect ( 'x' ) | update t set a = 1 | begin | commit | set transaction read only
    """.replace("\n", "|").split("|")
).map(str.split)
cases = st.sampled_from([str.upper, str.lower, str.capitalize])


@given(st.data(), st.lists(sentences.filter(bool), min_size=1, max_size=3), st.booleans())
def test_spaces_comments_and_case_change_nothing(
    data: st.DataObject, statements: list[list[str]], is_transaction: bool
) -> None:
    plainly = ";".join(" ".join(words) for words in statements)
    tokens = [token for words in statements for token in (*words, ";")]
    written = data.draw(gaps)
    for token in tokens:
        written += (token if token[0] in "\"'" else data.draw(cases)(token)) + data.draw(gaps)
    assert effects_of(written, is_transaction) == effects_of(plainly, is_transaction)
    assert effects_of(plainly, is_transaction) == session_effects._combine_effects(
        split_statements(plainly.encode()), is_transaction
    )


@given(st.lists(st.sampled_from(["; ", "'", '"', "$$", "/*", "*/", "--", "\n", *ALL]), max_size=6), st.booleans())
def test_a_glance_lets_nothing_go_that_matters(statements: list[str], is_transaction: bool) -> None:
    text = " ".join(statements).encode()
    assert find_session_effects(text, is_transaction=is_transaction) == session_effects._combine_effects(
        split_statements(text), is_transaction
    )


@pytest.mark.parametrize("text", ALL)
def test_quoted_words_do_not_count(text: str) -> None:
    literal, escaped = text.replace("'", "''"), text.replace("\\", "\\\\").replace("'", "\\'")
    name, comment = text.replace('"', '""'), text.replace("/*", "").replace("*/", "")
    for quoted in (
        f"select '{literal}'",
        f"select E'{escaped}', 1",
        f"select $q$;{text};$q$",
        f"do $q$ begin {text}; end $q$",
        f'select 1 as "{name}"',
        f"/*{comment}; {comment}*/ select 1",
        f"insert into log values (1, ';{literal}') returning id",
    ):
        assert effects_of(quoted) is NO_EFFECTS
