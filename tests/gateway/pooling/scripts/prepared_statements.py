"""Prepared statements: created, used, closed and deallocated."""

from gateway.pooling.scripts.script import Script, Write, make_script
from support.protocol_messages import (
    SYNC,
    bind,
    bind_and_execute,
    close,
    describe,
    execute,
    extended_query,
    function_call,
    message,
    parse,
    query,
)

_PI = 1610  # the oid of pi()
_BINARY = message(b"B", b"\0s\0" + b"\0\1\0\1" + b"\0\1\0\0\0\4\0\0\0\x2a" + b"\0\1\0\1")

PREPARED_STATEMENT_SCRIPTS: dict[str, Script] = {
    "described": make_script(
        parse("s", "select $1::date as day, 2 as two") + describe("S", "s") + SYNC,
        describe("S", "s") + describe("S", "t") + SYNC,
    ),
    "described and no data": make_script(
        parse("s", "delete from things where id = $1")
        + describe("S", "s")
        + bind("", "s", "1")
        + describe("P", "")
        + SYNC
    ),
    "named": make_script(
        parse("s", "select $1::text") + SYNC,
        bind_and_execute("s", "a") + SYNC,
        bind_and_execute("s", "b") + SYNC,
        close("S", "s") + SYNC,
        bind_and_execute("s", "c") + SYNC,
    ),
    "named again": make_script(
        parse("s", "select 1") + SYNC, parse("s", "select 2") + SYNC, bind_and_execute("s") + SYNC
    ),
    "named again in one batch": make_script(
        parse("s", "select 1") + parse("s", "select 2") + bind_and_execute("s") + SYNC, bind_and_execute("s") + SYNC
    ),
    "closed and named again": make_script(
        parse("s", "select 1") + SYNC,
        close("S", "s") + parse("s", "select 2, 3") + bind_and_execute("s") + SYNC,
        bind_and_execute("s") + SYNC,
    ),
    "never named": make_script(bind_and_execute("s") + SYNC, describe("S", "s") + SYNC, close("S", "s") + SYNC),
    "named again after a batch that failed, in one write": make_script(
        bind_and_execute("s") + parse("s", "select 1") + SYNC + parse("s", "select 2") + SYNC,
        bind_and_execute("s") + SYNC,
    ),
    "kept though the batch failed": make_script(
        parse("s", "select 1") + extended_query("select 1/0") + SYNC, bind_and_execute("s") + SYNC
    ),
    "lost with the error before it": make_script(
        extended_query("select 1/0") + parse("s", "select 1") + SYNC, bind_and_execute("s") + SYNC
    ),
    "kept though rolled back": make_script(
        query("begin"), parse("s", "select 1") + SYNC, query("rollback"), bind_and_execute("s") + SYNC
    ),
    "closed in what was rolled back": make_script(
        parse("s", "select 1") + SYNC,
        query("begin"),
        close("S", "s") + SYNC,
        query("rollback"),
        bind_and_execute("s") + SYNC,
    ),
    "not closed by a batch that failed": make_script(
        parse("s", "select 1") + SYNC,
        extended_query("select 1/0") + close("S", "s") + SYNC,
        bind_and_execute("s") + SYNC,
    ),
    "in a failed transaction": make_script(
        parse("s", "select 1") + SYNC,
        query("begin; select 1/0"),
        bind_and_execute("s") + SYNC,
        parse("t", "select 2") + SYNC,
        close("S", "s") + SYNC,
        query("rollback"),
        bind_and_execute("s") + SYNC,
        bind_and_execute("t") + SYNC,
    ),
    "a transaction by statements": make_script(
        parse("s", "begin") + parse("t", "rollback") + parse("u", "insert into things values (1)") + SYNC,
        bind_and_execute("s") + SYNC,
        bind_and_execute("u") + bind_and_execute("u") + SYNC,
        query("select 1/0"),
        bind_and_execute("u") + SYNC,
        bind_and_execute("t") + SYNC,
        bind_and_execute("s") + bind_and_execute("t") + SYNC,
    ),
    "described for a table that is gone": make_script(
        query("create table brief (id integer)"),
        parse("s", "table brief") + describe("S", "s") + SYNC,
        query("drop table brief"),
        bind_and_execute("s") + SYNC,
        bind_and_execute("s") + extended_query("select 1") + SYNC + extended_query("select 2") + SYNC,
        query("create table brief (id integer)"),
        bind_and_execute("s") + SYNC,
    ),
    "described and used in a failed transaction": make_script(
        parse("s", "select 1") + describe("S", "s") + SYNC,
        query("begin; select 1/0"),
        bind_and_execute("s") + SYNC,
        bind_and_execute("s") + SYNC + extended_query("rollback") + SYNC + bind_and_execute("s") + SYNC,
    ),
    "made for a table that is gone": make_script(
        query("create table brief (id integer)"),
        parse("s", "table brief") + SYNC,
        query("drop table brief"),
        bind_and_execute("s") + SYNC,
        query("create table brief (id integer)"),
        bind_and_execute("s") + SYNC,
    ),
    "unnamed and used later": make_script(
        parse("", "select $1::integer") + SYNC, bind_and_execute("", "1") + SYNC, bind_and_execute("", "2") + SYNC
    ),
    "unnamed that sets": make_script(
        extended_query("set timezone = 'Asia/Tokyo'") + SYNC,
        describe("S", "") + SYNC,
        bind_and_execute("") + SYNC,
        query("show timezone"),
    ),
    "unnamed after a simple query": make_script(
        parse("", "select 1") + SYNC, query("select 2"), bind_and_execute("") + SYNC
    ),
    "unnamed that failed": make_script(
        parse("", "select 1") + SYNC, parse("", "selec") + SYNC, bind_and_execute("") + SYNC
    ),
    "types of parameters": make_script(
        parse("s", "select $1 + 1, $2", 23, 25) + describe("S", "s") + bind_and_execute("s", "1", "x") + SYNC
    ),
    "too few parameters": make_script(
        parse("s", "select $1::text, $2::text") + SYNC,
        bind_and_execute("s", "1") + SYNC,
        bind_and_execute("s", "1", "2") + SYNC,
    ),
    "binary": make_script(parse("s", "select $1::integer") + SYNC, _BINARY + execute() + SYNC),
    "several texts in one": make_script(parse("s", "select 1; select 2") + SYNC, query("select 1")),
    "deallocated": make_script(
        parse("s", "select 1") + parse("t", "select 2") + SYNC,
        query("deallocate s"),
        bind_and_execute("s") + SYNC,
        bind_and_execute("t") + SYNC,
        query("deallocate s"),
    ),
    "all deallocated": make_script(
        parse("s", "select 1") + parse("t", "select 2") + SYNC,
        query("deallocate all"),
        bind_and_execute("s") + SYNC,
        bind_and_execute("t") + SYNC,
        parse("s", "select 3") + bind_and_execute("s") + SYNC,
    ),
    "deallocated by batches": make_script(
        parse("s", "select 1") + parse("t", "select 2") + SYNC,
        extended_query("deallocate s") + SYNC,
        bind_and_execute("s") + SYNC,
        extended_query("deallocate prepare all") + SYNC,
        bind_and_execute("t") + SYNC,
        extended_query("deallocate t") + SYNC,
    ),
    "deallocated with odd names": make_script(
        parse("My Name", "select 1") + parse("my", "select 2") + parse('q"q', "select 3") + SYNC,
        query('deallocate "My Name"'),
        query("DEALLOCATE /* this */ MY -- one"),
        query('deallocate prepare "q""q"'),
        bind_and_execute("My Name") + SYNC,
        bind_and_execute("my") + SYNC,
        bind_and_execute('q"q') + SYNC,
    ),
    "unnamed, before a query that is skipped": make_script(
        parse("", "select 'unnamed'") + SYNC,
        Write(bind_and_execute("nobody") + query("select 1") + SYNC, 1),
        bind_and_execute("") + SYNC,
        Write(parse("", "select nothing_here") + query("select 1") + SYNC, 1),
        bind_and_execute("") + SYNC,
    ),
    "unnamed, in batches that fail": make_script(
        parse("", "select $1::integer") + bind("", "", "x") + execute() + SYNC,
        bind_and_execute("", "1") + SYNC,
        extended_query("select nothing_here") + SYNC,
        bind_and_execute("") + SYNC,
        query("begin; select 1/0"),
        extended_query("select 1") + SYNC,
        extended_query("rollback") + SYNC,
        bind_and_execute("") + SYNC,
    ),
    "unnamed, in batches that are skipped": make_script(
        extended_query("select 'unnamed'") + SYNC,
        Write(bind_and_execute("nobody"), 0),
        extended_query("select 'skipped'") + SYNC,
        bind_and_execute("") + SYNC,
        bind_and_execute("nobody") + extended_query("select 'skipped too'") + close("S", "") + SYNC,
        bind_and_execute("") + SYNC,
        extended_query("select 'kept'")
        + bind_and_execute("nobody")
        + extended_query("select 'skipped'")
        + extended_query("select 'and skipped'")
        + SYNC,
        bind_and_execute("") + SYNC,
        extended_query("select 'replaced'")
        + parse("", "select nothing_here")
        + extended_query("select 'skipped'")
        + SYNC,
        bind_and_execute("") + SYNC,
        extended_query("select 'closed'") + SYNC,
        close("S", "") + bind_and_execute("nobody") + SYNC,
        bind_and_execute("") + SYNC,
    ),
    "unnamed, before a function call": make_script(
        extended_query("select 1") + SYNC, function_call(_PI), bind_and_execute("") + SYNC
    ),
    "unnamed, ended behind a batch that failed": make_script(
        Write(extended_query("select 1/0") + query("begin") + SYNC + query(""), 2),
        bind_and_execute("") + SYNC,
        extended_query("select 1") + SYNC,
        Write(bind_and_execute("nobody") + extended_query("select 2") + SYNC + close("S", "") + SYNC, 2),
        bind_and_execute("") + SYNC,
        parse("s", "select 's'") + extended_query("select 3") + SYNC,
        bind_and_execute("s") + bind_and_execute("") + extended_query("select 4") + SYNC + bind_and_execute("") + SYNC,
        bind_and_execute("s")
        + extended_query("select 5")
        + bind_and_execute("")
        + SYNC
        + query("")
        + bind_and_execute("")
        + SYNC,
        bind_and_execute("s") + extended_query("discard all") + SYNC,
        bind_and_execute("") + SYNC,
    ),
    "a batch in one write, and more": make_script(
        extended_query("select 1") + SYNC + extended_query("select 2") + SYNC,
        extended_query("select 3") + SYNC + query("select 4"),
        extended_query("set timezone = 'Asia/Tokyo'") + SYNC,
        extended_query("show timezone") + SYNC,
        extended_query("select $1::text", None) + SYNC,
        extended_query("select $1::text") + SYNC,
    ),
    "made twice": make_script(
        parse("s", "select 1") + SYNC,
        parse("s", "select 2") + SYNC,
        parse("s", "select nothing_here") + SYNC,
        parse("s", "no words at all") + SYNC,
        bind_and_execute("s") + SYNC,
    ),
    "not deallocated where that fails": make_script(
        parse("s", "select 1") + parse("t", "select 2") + SYNC,
        query("begin; select 1 / 0"),
        query("deallocate s"),
        query("rollback"),
        bind_and_execute("s") + SYNC,
        query("deallocate t; select 1 / 0; deallocate s"),
        bind_and_execute("s") + SYNC,
        bind_and_execute("t") + SYNC,
        query("deallocate no_such_name; deallocate s"),
        bind_and_execute("s") + SYNC,
    ),
    "deallocated among others": make_script(
        parse("s", "select 1") + SYNC, query("select 1; deallocate s; select 2"), bind_and_execute("s") + SYNC
    ),
    "deallocated in what was rolled back": make_script(
        parse("s", "select 1") + SYNC,
        query("begin"),
        query("deallocate s"),
        query("rollback"),
        bind_and_execute("s") + SYNC,
    ),
    "everything discarded": make_script(
        parse("s", "select 1") + SYNC,
        query("set timezone = 'Asia/Tokyo'"),
        query("discard all"),
        bind_and_execute("s") + SYNC,
        query("show timezone"),
    ),
    "everything discarded by a batch": make_script(
        parse("s", "select 1") + SYNC,
        query("set timezone = 'Asia/Tokyo'"),
        extended_query("discard all") + SYNC,
        bind_and_execute("s") + SYNC,
        query("show timezone"),
    ),
    "not discarded in a transaction": make_script(
        parse("s", "select 1") + SYNC, query("begin; discard all"), query("rollback"), bind_and_execute("s") + SYNC
    ),
    "set for the transaction, then for the session, without a name": make_script(
        query("begin"),
        extended_query("set local timezone = 'Asia/Tokyo'") + SYNC,
        extended_query("set work_mem = '5MB'") + SYNC,
        query("commit"),
        query("show work_mem"),
        query("show timezone"),
    ),
}
