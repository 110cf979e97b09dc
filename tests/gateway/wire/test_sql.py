"""SQL is split where Postgres splits it; any other bytes are accepted too."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.gateway.wire.sql import find_calls, split_statements, tokenize, truncate_identifier, unquote_identifier
from gateway.wire.conftest import PgSession

# The number of statements, and the text. Postgres can run each one.
TRICKY = [
    (1, "select 1"),
    (1, "select 1;"),
    (2, "select 1;;; select 2;;"),
    (2, "select 1\n;\nselect 2"),
    (1, "select ';'"),
    (1, "select 'it''s; fine'"),
    (2, "select ''; select ''''"),
    (2, r"select '\'; select '\'"),
    (1, r"select E'\'; select \''"),
    (2, r"select E'\\'; select 2"),
    (1, r"select e'a''; b\\\';'"),
    (1, "select E'a'\n  '; \\' ;'"),
    (1, "select E'a' -- and on; it goes\n -- ; \n '; \\' ;'"),
    (2, "select E'a' || \n 'b\\'; select 2"),
    (2, "select E'a' /* not on */ || 'b\\'; select 2"),
    (2, "select 'a'\n'b\\'; select 2"),
    (1, "select E'a'\r'\\';' as x"),
    (1, "select U&'\\0061;' as x"),
    (1, 'select 1 as U&"d;\\0061"'),
    (1, "select B'01', X'ff', N'a;', 'b' as n"),
    (1, "select $$ ; ' $$"),
    (1, "select $a$ ; $$ ; $b$ ; $A$ ; $a$"),
    (2, "select $a$ $a $a$; select 2"),
    (1, "select $a$ $b$a$"),
    (2, "select $$ $a$$; select 2"),
    (1, "select $ä$ ; $ä$"),
    (2, "select 1 as a$$; select 2 as b$$"),
    (2, 'select 1 as "a;"";b"; select 2 as "\'"'),
    (2, "select 1 -- ; ' \n; select 2"),
    (2, "select 1 -- ; ' \r; select 2"),
    (2, "select 1 /* ; ' */; select 2"),
    (1, "select 1 /* /* ; */ ; */"),
    (2, "select 1 /**/; select 2 /***/"),
    (1, "select 1 /*/ ; */"),
    (1, "/* /*/ ; */ ; */ select 1"),
    (2, "select 2*/* ; */3; select 4 +-- ;\n 5"),
    (2, "select 2---1;\n; select 3"),
    (1, "select (select 1)"),
    (2, "select array['(']; select ')'"),
    (2, "select 'é;' as \"ü;\"; select 2"),
    (2, "create temp table t(); create rule r as on insert to t do also (select 1; select 2)"),
    (
        2,
        "create function pg_temp.f() returns int begin atomic select case when true then 1 end; select 2; end;"
        "select pg_temp.f()",
    ),
    (2, "create function pg_temp.g() returns int language sql as $$ select 1; select 2 $$; select pg_temp.g()"),
    (3, "begin; select case when true then 1 end; commit"),
    (1, "do $do$ begin perform 1; perform 2; end $do$"),
]


@pytest.mark.parametrize(("count", "text"), TRICKY)
def test_statements_are_counted_as_postgres_counts_them(session: PgSession, count: int, text: str) -> None:
    tags = session.run(text.encode())
    assert len(tags) == count, tags
    assert len(split_statements(text.encode())) == count


def test_quotes_and_comments_in_any_order_end_where_postgres_ends_them(session: PgSession) -> None:
    """Postgres rejects most of these texts, but of thousands it accepts enough."""
    starts = ["'", "E'", "E'a'\n'", "U&'", "$$", "$a$", "1/*", "1--", '1 as "']
    chunks = ["'", "''", "\\", "E'", "$$", "$a$", "/*", "*/", "--", "\n", "\r", '"', ";", "1", " ", "a", "||"]
    ends = ["'", "$$", "$a$", "*/", "\n", '"']
    compared = 0
    for seed in range(10_000):
        chosen = random.Random(seed)
        middle = "".join(chosen.choices(chunks, k=chosen.randint(2, 8)))
        text = ("select " + chosen.choice(starts) + middle + chosen.choice(ends)).encode()
        for tried in (text, text + b"; select 1"):
            tags = session.run(tried)
            if all(tag.startswith("SELECT") for tag in tags):
                assert len(split_statements(tried)) == len(tags), tried
                compared += 1
    assert compared > 1_000


@given(st.binary())
def test_any_bytes_are_cut(text: bytes) -> None:
    for statement in split_statements(text):
        assert statement
        assert all(statement)
        assert list(find_calls(statement)) is not None


scraps = st.sampled_from(
    "' '' \\ e' E' u&' $$ $a$ $1 /* */ -- \n \" ; ( ) , . = a é create begin atomic end".split(" ")
)


@given(st.lists(scraps, max_size=40))
def test_no_sign_is_lost_and_none_is_seen_twice(parts: list[str]) -> None:
    text = "".join(parts).encode()
    at, written, low = 0, text.decode("latin-1"), text.lower().decode("latin-1")
    for token in tokenize(text):
        found = (written if token[0] in "\"'$" else low).find(token, at)
        assert found >= at
        at = found + len(token)


def test_tokens() -> None:
    text = b"SELECT Foo.\"Bar\"\"s\", 'It''s', E'\\'', $1, $$x$$, 12.5::INT /* no */ = -- no\n B"
    assert list(tokenize(text)) == [
        *("select", "foo", ".", '"Bar""s"', ",", "'It''s'", ",", "'\\''", ",", "$1", ",", "$$x$$", ","),
        *("12", ".", "5", ":", ":", "int", "=", "b"),
    ]


@pytest.mark.parametrize("text", ["'", "'a''", '"', "E'\\", "E'\\'", "$a$ $A$", "/* /* */", "--", "((((;"])
def test_what_is_never_closed_goes_on_to_the_end(text: str) -> None:
    assert len(split_statements(b"select 1 " + text.encode() + b"; x")) == 1


def test_names() -> None:
    assert unquote_identifier('"a""b"') == 'a"b'
    assert unquote_identifier("word") == "word"
    assert truncate_identifier('"' + "x" * 70 + '"') == b"x" * 63
    assert truncate_identifier(("é" * 40).encode().decode("latin-1")) == "é".encode() * 31
    assert truncate_identifier("\x80" * 70) == b"\x80" * 63


def test_calls_and_their_last_arguments() -> None:
    (statement,) = split_statements(b'select pg_catalog.F(1, (2), g(3)), "H"(), x.y.z(true), never(a, b')
    found = [(call.schema, call.function, call.commas, call.last_argument) for call in find_calls(statement)]
    assert found == [
        ("", ",", 0, ["2"]),
        ("", "g", 0, ["3"]),
        ("pg_catalog", "f", 2, ["g", ")"]),
        ("", "H", 0, []),
        ("y", "z", 0, ["true"]),
        ("", "never", 1, ["b"]),
    ]


SCALE = {
    "quotes": b"'", "escapes": b"E'\\'", "dollars": b"$a", "tags": b"$a$b", "comments": b"/*", "lines": b"--\n",
    "parentheses": b"f(", "semicolons": b"; ", "strings": b"e''\n", "names": b'"a"""', "words": b"a ", "zeros": b"\0",
}  # fmt: skip


@pytest.mark.parametrize("chunk", SCALE.values(), ids=SCALE)
def test_long_texts_come_to_an_end(chunk: bytes) -> None:
    """Quadratic time would take hours here, and the suite's timeout would end it."""
    for statement in split_statements(b"select " + chunk * 200_000):
        assert sum(1 for _ in find_calls(statement)) <= 200_000
