"""COPY by both protocols, and the calls of functions."""

from gateway.pooling.phrases import COPY_DONE, FLUSH, SYNC, ask, copy_data, copy_fail, function_call, query
from gateway.pooling.scripts.writes import Script, Write, during_copy, writes

_IN, _OUT = "copy things from stdin", "copy things to stdout"
_LINES = copy_data(b"7\tseven\n8") + copy_data(b"\teight\n")
_ABS, _CURRENT_DATABASE, _NO_FUNCTION = 1397, 861, 1

COPIES: dict[str, Script] = {
    "in": writes(query(_IN) + _LINES + COPY_DONE, query("table things")),
    "in, by parts": writes(Write(query(_IN), 0), Write(_LINES, 0), Write(COPY_DONE, 1), query("table things")),
    "in, and given up": writes(query(_IN) + _LINES + copy_fail("no more"), query("table things")),
    "in, and refused": writes(
        query(_IN) + copy_data(b"x\ty\n") + copy_data(b"more\n") + COPY_DONE, query("table things")
    ),
    "in, in a transaction": writes(
        query("begin"), query(_IN) + _LINES + COPY_DONE, query("rollback"), query("table things")
    ),
    "in, twice in one query": writes(
        query(f"{_IN}; {_IN}; select 1") + _LINES + COPY_DONE + _LINES + COPY_DONE, query("table things")
    ),
    "out": writes(
        query("insert into things values (1, 'one'), (2, null)"), query(_OUT), query(f"select 1; {_OUT}; select 2")
    ),
    "out, failing": writes(query("copy (select 1/(3 - n) from generate_series(1, 5) n) to stdout"), query("select 1")),
    "of no table, sent at once": writes(query("copy nothing from stdin") + _LINES + COPY_DONE, query("select 1")),
    "of no table, given up": writes(query("copy nothing from stdin") + _LINES + copy_fail("no"), query("select 1")),
    "in, by a batch": writes(during_copy(ask(_IN), _LINES, COPY_DONE, SYNC), query("table things")),
    "in, by a batch with its end before": writes(
        during_copy(ask(_IN), SYNC, _LINES, COPY_DONE, SYNC), query("table things")
    ),
    "in, by a batch that fails": writes(
        during_copy(ask(_IN), SYNC, copy_data(b"x\n"), COPY_DONE, SYNC), query("table things")
    ),
    "in, by a batch given up": writes(
        during_copy(ask(_IN), FLUSH, _LINES, copy_fail("no more"), SYNC), query("table things")
    ),
    "of no table, by a batch": writes(
        during_copy(ask("copy nothing from stdin"), SYNC, _LINES, COPY_DONE, SYNC, answers=2), query("select 1")
    ),
    "out, by a batch": writes(
        query("insert into things values (1, 'one')"), ask(_OUT) + SYNC, ask(_OUT) + SYNC + ask("select 1") + SYNC
    ),
    "rows that nobody asked for": writes(
        _LINES + COPY_DONE + query("select 1"), copy_fail("no") + ask("select 2") + SYNC
    ),
}

CALLS: dict[str, Script] = {
    "a function": writes(function_call(_ABS, "-42"), function_call(_CURRENT_DATABASE)),
    "no function": writes(function_call(_NO_FUNCTION), function_call(_ABS, "x"), query("select 1")),
    "in a transaction": writes(
        query("begin"),
        function_call(_ABS, "-1"),
        function_call(_ABS, "x"),
        function_call(_ABS, "-1"),
        query("rollback"),
    ),
    "among others": writes(ask("select 1") + SYNC + function_call(_ABS, "-1") + query("select 2")),
}
