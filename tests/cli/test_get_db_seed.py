"""The seed of `bough get-db` as text: how it is split, and what is rejected before the database is created."""

from pathlib import Path

import pytest

from bough.cli.get_db import sql_script
from bough.cli.get_db.seed import Seed
from bough.errors import Invalid


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ;; \n-- select 1;\n/* a; /* b; */ c; */", []),
        ("select 1;\nselect 2", [(1, "select 1;"), (11, "select 2")]),
        ("-- é;\nselect 'a;''b', \"c;\"\"d\";select 3;", [(7, "select 'a;''b', \"c;\"\"d\";"), (31, "select 3;")]),
        (r"select E'it\'s;', 'C:\'; x", [(1, r"select E'it\'s;', 'C:\';"), (26, "x")]),
        ("do $$ begin; end $$; do $é$ $$; $é$;", [(1, "do $$ begin; end $$;"), (22, "do $é$ $$; $é$;")]),
        ("select a$b$c; x", [(1, "select a$b$c;"), (15, "x")]),
        ("create rule r as on b to t do (a; b); c", [(1, "create rule r as on b to t do (a; b);"), (39, "c")]),
        (
            "create function f() begin atomic select case when a then b end; end; c",
            [(1, "create function f() begin atomic select case when a then b end; end;"), (70, "c")],
        ),
        ("select ); x", [(1, "select );"), (11, "x")]),
        ("/* never; ends", []),
        ("select 'never; ends", [(1, "select 'never;"), (16, "ends")]),
    ],
)  # fmt: skip
def test_statements_are_cut_where_they_end(text: str, expected: list[tuple[int, str]]) -> None:
    assert list(sql_script.split_statements(text)) == expected


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("one", 1, sql_script.ScriptLine(1, "one")),
        ("é日本\n  😀 two\r\nthree", 5, sql_script.ScriptLine(2, "😀 two")),
        ("é日本\n  😀 two\r\nthree", 14, sql_script.ScriptLine(3, "three")),
        ("x" * 500, 500, sql_script.ScriptLine(1, "x" * 160 + "…")),
        ("one\n", 99, sql_script.ScriptLine(2, "")),
    ],
)
def test_a_position_counts_characters(text: str, position: int, expected: sql_script.ScriptLine) -> None:
    assert sql_script.locate(text, position) == expected


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("insert into a values ('commit;')", False),
        ("-- commit;\nselect 1 as commit;", False),
        ("begin; select 1; COMMIT; select 2", True),
        ("/* x */ end", True),
        ("rollback", True),
        ("prepare transaction 'x'", True),
        ("create function f() begin atomic select 1; end;", False),
    ],
)
def test_it_is_known_whether_a_seed_ends_its_transaction_itself(text: str, ends: bool) -> None:
    assert sql_script.has_transaction_end(text) is ends


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"select 1;\nselect '\xff';", "is not UTF-8 at line 2"),
        (b"select 1;\0", "is not text: it contains a zero byte"),
        (
            b"create table a (i int);\n\nCOPY public.a (i) FROM stdin;\n1\n\\.\n",
            r"for psql at line 3 \(COPY … FROM stdin\)",
        ),
    ],
)
def test_a_seed_that_cannot_run_is_refused_before(tmp_path: Path, content: bytes | None, phrase: str) -> None:
    path = tmp_path / "seed.sql"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Invalid, match=rf"^The seed {path} .*{phrase}.*Nothing was created\.$"):
        Seed.read(str(path))


def test_a_mark_of_byte_order_is_no_part_of_a_seed(tmp_path: Path) -> None:
    (tmp_path / "seed.sql").write_bytes(b"\xef\xbb\xbfselect 'copy a from stdin'")
    assert Seed.read(str(tmp_path / "seed.sql")).text == "select 'copy a from stdin'"
