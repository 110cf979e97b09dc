"""Prepared statements: made, used, closed and thrown away."""

from gateway.pooling.phrases import (
    SYNC,
    ask,
    bind,
    close,
    describe,
    execute,
    function_call,
    message,
    parse,
    query,
    use,
)
from gateway.pooling.scripts.writes import Script, Write, writes

_PI = 1610  # pi(), whose oid is in the source of Postgres
_BINARY = message(b"B", b"\0s\0" + b"\0\1\0\1" + b"\0\1\0\0\0\4\0\0\0\x2a" + b"\0\1\0\1")

STATEMENTS: dict[str, Script] = {
    "described": writes(
        parse("s", "select $1::date as day, 2 as two") + describe("S", "s") + SYNC,
        describe("S", "s") + describe("S", "t") + SYNC,
    ),
    "described and no data": writes(
        parse("s", "delete from things where id = $1")
        + describe("S", "s")
        + bind("", "s", "1")
        + describe("P", "")
        + SYNC
    ),
    "named": writes(
        parse("s", "select $1::text") + SYNC,
        use("s", "a") + SYNC,
        use("s", "b") + SYNC,
        close("S", "s") + SYNC,
        use("s", "c") + SYNC,
    ),
    "named again": writes(parse("s", "select 1") + SYNC, parse("s", "select 2") + SYNC, use("s") + SYNC),
    "named again in one batch": writes(
        parse("s", "select 1") + parse("s", "select 2") + use("s") + SYNC, use("s") + SYNC
    ),
    "closed and named again": writes(
        parse("s", "select 1") + SYNC, close("S", "s") + parse("s", "select 2, 3") + use("s") + SYNC, use("s") + SYNC
    ),
    "never named": writes(use("s") + SYNC, describe("S", "s") + SYNC, close("S", "s") + SYNC),
    "named again after a batch that failed, in one write": writes(
        use("s") + parse("s", "select 1") + SYNC + parse("s", "select 2") + SYNC, use("s") + SYNC
    ),
    "kept though the batch failed": writes(parse("s", "select 1") + ask("select 1/0") + SYNC, use("s") + SYNC),
    "lost with the error before it": writes(ask("select 1/0") + parse("s", "select 1") + SYNC, use("s") + SYNC),
    "kept though rolled back": writes(
        query("begin"), parse("s", "select 1") + SYNC, query("rollback"), use("s") + SYNC
    ),
    "closed in what was rolled back": writes(
        parse("s", "select 1") + SYNC, query("begin"), close("S", "s") + SYNC, query("rollback"), use("s") + SYNC
    ),
    "not closed by a batch that failed": writes(
        parse("s", "select 1") + SYNC, ask("select 1/0") + close("S", "s") + SYNC, use("s") + SYNC
    ),
    "in a failed transaction": writes(
        parse("s", "select 1") + SYNC,
        query("begin; select 1/0"),
        use("s") + SYNC,
        parse("t", "select 2") + SYNC,
        close("S", "s") + SYNC,
        query("rollback"),
        use("s") + SYNC,
        use("t") + SYNC,
    ),
    "a transaction by statements": writes(
        parse("s", "begin") + parse("t", "rollback") + parse("u", "insert into things values (1)") + SYNC,
        use("s") + SYNC,
        use("u") + use("u") + SYNC,
        query("select 1/0"),
        use("u") + SYNC,
        use("t") + SYNC,
        use("s") + use("t") + SYNC,
    ),
    "described for a table that is gone": writes(
        query("create table brief (id integer)"),
        parse("s", "table brief") + describe("S", "s") + SYNC,
        query("drop table brief"),
        use("s") + SYNC,
        use("s") + ask("select 1") + SYNC + ask("select 2") + SYNC,
        query("create table brief (id integer)"),
        use("s") + SYNC,
    ),
    "described and used in a failed transaction": writes(
        parse("s", "select 1") + describe("S", "s") + SYNC,
        query("begin; select 1/0"),
        use("s") + SYNC,
        use("s") + SYNC + ask("rollback") + SYNC + use("s") + SYNC,
    ),
    "made for a table that is gone": writes(
        query("create table brief (id integer)"),
        parse("s", "table brief") + SYNC,
        query("drop table brief"),
        use("s") + SYNC,
        query("create table brief (id integer)"),
        use("s") + SYNC,
    ),
    "unnamed and used later": writes(parse("", "select $1::integer") + SYNC, use("", "1") + SYNC, use("", "2") + SYNC),
    "unnamed that sets": writes(
        ask("set timezone = 'Asia/Tokyo'") + SYNC, describe("S", "") + SYNC, use("") + SYNC, query("show timezone")
    ),
    "unnamed after a simple query": writes(parse("", "select 1") + SYNC, query("select 2"), use("") + SYNC),
    "unnamed that failed": writes(parse("", "select 1") + SYNC, parse("", "selec") + SYNC, use("") + SYNC),
    "types of parameters": writes(
        parse("s", "select $1 + 1, $2", 23, 25) + describe("S", "s") + use("s", "1", "x") + SYNC
    ),
    "too few parameters": writes(
        parse("s", "select $1::text, $2::text") + SYNC, use("s", "1") + SYNC, use("s", "1", "2") + SYNC
    ),
    "binary": writes(parse("s", "select $1::integer") + SYNC, _BINARY + execute() + SYNC),
    "several texts in one": writes(parse("s", "select 1; select 2") + SYNC, query("select 1")),
    "deallocated": writes(
        parse("s", "select 1") + parse("t", "select 2") + SYNC,
        query("deallocate s"),
        use("s") + SYNC,
        use("t") + SYNC,
        query("deallocate s"),
    ),
    "all deallocated": writes(
        parse("s", "select 1") + parse("t", "select 2") + SYNC,
        query("deallocate all"),
        use("s") + SYNC,
        use("t") + SYNC,
        parse("s", "select 3") + use("s") + SYNC,
    ),
    "deallocated by batches": writes(
        parse("s", "select 1") + parse("t", "select 2") + SYNC,
        ask("deallocate s") + SYNC,
        use("s") + SYNC,
        ask("deallocate prepare all") + SYNC,
        use("t") + SYNC,
        ask("deallocate t") + SYNC,
    ),
    "deallocated with odd names": writes(
        parse("My Name", "select 1") + parse("my", "select 2") + parse('q"q', "select 3") + SYNC,
        query('deallocate "My Name"'),
        query("DEALLOCATE /* this */ MY -- one"),
        query('deallocate prepare "q""q"'),
        use("My Name") + SYNC,
        use("my") + SYNC,
        use('q"q') + SYNC,
    ),
    "unnamed, before a query that is skipped": writes(
        parse("", "select 'unnamed'") + SYNC,
        Write(use("nobody") + query("select 1") + SYNC, 1),
        use("") + SYNC,
        Write(parse("", "select nothing_here") + query("select 1") + SYNC, 1),
        use("") + SYNC,
    ),
    "unnamed, in batches that fail": writes(
        parse("", "select $1::integer") + bind("", "", "x") + execute() + SYNC,
        use("", "1") + SYNC,
        ask("select nothing_here") + SYNC,
        use("") + SYNC,
        query("begin; select 1/0"),
        ask("select 1") + SYNC,
        ask("rollback") + SYNC,
        use("") + SYNC,
    ),
    "unnamed, in batches that are skipped": writes(
        ask("select 'unnamed'") + SYNC,
        Write(use("nobody"), 0),
        ask("select 'skipped'") + SYNC,
        use("") + SYNC,
        use("nobody") + ask("select 'skipped too'") + close("S", "") + SYNC,
        use("") + SYNC,
        ask("select 'kept'") + use("nobody") + ask("select 'skipped'") + ask("select 'and skipped'") + SYNC,
        use("") + SYNC,
        ask("select 'replaced'") + parse("", "select nothing_here") + ask("select 'skipped'") + SYNC,
        use("") + SYNC,
        ask("select 'closed'") + SYNC,
        close("S", "") + use("nobody") + SYNC,
        use("") + SYNC,
    ),
    "unnamed, before a function call": writes(ask("select 1") + SYNC, function_call(_PI), use("") + SYNC),
    "unnamed, ended behind a batch that failed": writes(
        Write(ask("select 1/0") + query("begin") + SYNC + query(""), 2),
        use("") + SYNC,
        ask("select 1") + SYNC,
        Write(use("nobody") + ask("select 2") + SYNC + close("S", "") + SYNC, 2),
        use("") + SYNC,
        parse("s", "select 's'") + ask("select 3") + SYNC,
        use("s") + use("") + ask("select 4") + SYNC + use("") + SYNC,
        use("s") + ask("select 5") + use("") + SYNC + query("") + use("") + SYNC,
        use("s") + ask("discard all") + SYNC,
        use("") + SYNC,
    ),
    "a batch in one write, and more": writes(
        ask("select 1") + SYNC + ask("select 2") + SYNC,
        ask("select 3") + SYNC + query("select 4"),
        ask("set timezone = 'Asia/Tokyo'") + SYNC,
        ask("show timezone") + SYNC,
        ask("select $1::text", None) + SYNC,
        ask("select $1::text") + SYNC,
    ),
    "made twice": writes(
        parse("s", "select 1") + SYNC,
        parse("s", "select 2") + SYNC,
        parse("s", "select nothing_here") + SYNC,
        parse("s", "no words at all") + SYNC,
        use("s") + SYNC,
    ),
    "not deallocated where that fails": writes(
        parse("s", "select 1") + parse("t", "select 2") + SYNC,
        query("begin; select 1 / 0"),
        query("deallocate s"),
        query("rollback"),
        use("s") + SYNC,
        query("deallocate t; select 1 / 0; deallocate s"),
        use("s") + SYNC,
        use("t") + SYNC,
        query("deallocate no_such_name; deallocate s"),
        use("s") + SYNC,
    ),
    "deallocated among others": writes(
        parse("s", "select 1") + SYNC, query("select 1; deallocate s; select 2"), use("s") + SYNC
    ),
    "deallocated in what was rolled back": writes(
        parse("s", "select 1") + SYNC, query("begin"), query("deallocate s"), query("rollback"), use("s") + SYNC
    ),
    "everything discarded": writes(
        parse("s", "select 1") + SYNC,
        query("set timezone = 'Asia/Tokyo'"),
        query("discard all"),
        use("s") + SYNC,
        query("show timezone"),
    ),
    "everything discarded by a batch": writes(
        parse("s", "select 1") + SYNC,
        query("set timezone = 'Asia/Tokyo'"),
        ask("discard all") + SYNC,
        use("s") + SYNC,
        query("show timezone"),
    ),
    "not discarded in a transaction": writes(
        parse("s", "select 1") + SYNC, query("begin; discard all"), query("rollback"), use("s") + SYNC
    ),
    "set for the transaction, then for the session, without a name": writes(
        query("begin"),
        ask("set local timezone = 'Asia/Tokyo'") + SYNC,
        ask("set work_mem = '5MB'") + SYNC,
        query("commit"),
        query("show work_mem"),
        query("show timezone"),
    ),
}
