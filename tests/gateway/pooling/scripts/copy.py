"""COPY in both protocols, and function calls."""

from gateway.pooling.scripts.script import Script, Write, make_copy_write, make_script
from support.protocol_messages import COPY_DONE, FLUSH, SYNC, copy_data, copy_fail, extended_query, function_call, query

_IN, _OUT = "copy things from stdin", "copy things to stdout"
_LINES = copy_data(b"7\tseven\n8") + copy_data(b"\teight\n")
_ABS, _CURRENT_DATABASE, _NO_FUNCTION = 1397, 861, 1

COPY_SCRIPTS: dict[str, Script] = {
    "in": make_script(query(_IN) + _LINES + COPY_DONE, query("table things")),
    "in, by parts": make_script(Write(query(_IN), 0), Write(_LINES, 0), Write(COPY_DONE, 1), query("table things")),
    "in, and given up": make_script(query(_IN) + _LINES + copy_fail("no more"), query("table things")),
    "in, and refused": make_script(
        query(_IN) + copy_data(b"x\ty\n") + copy_data(b"more\n") + COPY_DONE, query("table things")
    ),
    "in, in a transaction": make_script(
        query("begin"), query(_IN) + _LINES + COPY_DONE, query("rollback"), query("table things")
    ),
    "in, twice in one query": make_script(
        query(f"{_IN}; {_IN}; select 1") + _LINES + COPY_DONE + _LINES + COPY_DONE, query("table things")
    ),
    "out": make_script(
        query("insert into things values (1, 'one'), (2, null)"), query(_OUT), query(f"select 1; {_OUT}; select 2")
    ),
    "out, failing": make_script(
        query("copy (select 1/(3 - n) from generate_series(1, 5) n) to stdout"), query("select 1")
    ),
    "of no table, sent at once": make_script(query("copy nothing from stdin") + _LINES + COPY_DONE, query("select 1")),
    "of no table, given up": make_script(
        query("copy nothing from stdin") + _LINES + copy_fail("no"), query("select 1")
    ),
    "in, by a batch": make_script(make_copy_write(extended_query(_IN), _LINES, COPY_DONE, SYNC), query("table things")),
    "in, by a batch with its end before": make_script(
        make_copy_write(extended_query(_IN), SYNC, _LINES, COPY_DONE, SYNC), query("table things")
    ),
    "in, by a batch that fails": make_script(
        make_copy_write(extended_query(_IN), SYNC, copy_data(b"x\n"), COPY_DONE, SYNC), query("table things")
    ),
    "in, by a batch given up": make_script(
        make_copy_write(extended_query(_IN), FLUSH, _LINES, copy_fail("no more"), SYNC), query("table things")
    ),
    "of no table, by a batch": make_script(
        make_copy_write(extended_query("copy nothing from stdin"), SYNC, _LINES, COPY_DONE, SYNC, replies=2),
        query("select 1"),
    ),
    "out, by a batch": make_script(
        query("insert into things values (1, 'one')"),
        extended_query(_OUT) + SYNC,
        extended_query(_OUT) + SYNC + extended_query("select 1") + SYNC,
    ),
    "rows that nobody asked for": make_script(
        _LINES + COPY_DONE + query("select 1"), copy_fail("no") + extended_query("select 2") + SYNC
    ),
}

FUNCTION_CALL_SCRIPTS: dict[str, Script] = {
    "a function": make_script(function_call(_ABS, "-42"), function_call(_CURRENT_DATABASE)),
    "no function": make_script(function_call(_NO_FUNCTION), function_call(_ABS, "x"), query("select 1")),
    "in a transaction": make_script(
        query("begin"),
        function_call(_ABS, "-1"),
        function_call(_ABS, "x"),
        function_call(_ABS, "-1"),
        query("rollback"),
    ),
    "among others": make_script(extended_query("select 1") + SYNC + function_call(_ABS, "-1") + query("select 2")),
}
