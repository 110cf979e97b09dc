"""The extended protocol: batches, pipelines and portals."""

from gateway.pooling.scripts.script import LONG_READ, Script, make_script
from support.protocol_messages import (
    FLUSH,
    SYNC,
    bind,
    bind_and_execute,
    close,
    describe,
    execute,
    extended_query,
    parse,
    query,
)

EXTENDED_QUERY_SCRIPTS: dict[str, Script] = {
    "a text": make_script(extended_query("select $1::integer + 1, $2::text", "41", None) + SYNC),
    "nothing": make_script(extended_query("") + SYNC, SYNC, SYNC + SYNC, FLUSH + SYNC),
    "several in a batch": make_script(
        extended_query("insert into things values ($1::integer)", "1") + extended_query("table things") + SYNC
    ),
    "an error in Parse": make_script(
        parse("s", "selec") + bind_and_execute("s") + SYNC, parse("s", "select 1") + bind_and_execute("s") + SYNC
    ),
    "an error in Bind": make_script(
        parse("s", "select $1::integer") + bind_and_execute("s", "x") + bind_and_execute("s", "1") + SYNC,
        bind_and_execute("s", "2") + SYNC,
    ),
    "an error in Execute": make_script(
        extended_query("insert into things values (1)") + extended_query("select 1/$1::integer", "0") + SYNC,
        extended_query("table things") + SYNC,
    ),
    "a transaction": make_script(
        extended_query("begin") + SYNC,
        extended_query("insert into things values (1)") + SYNC,
        extended_query("commit") + SYNC,
        extended_query("table things") + SYNC,
    ),
    "a transaction in a batch": make_script(
        extended_query("begin")
        + extended_query("insert into things values (1)")
        + extended_query("commit")
        + extended_query("table things")
        + SYNC
    ),
    "left open by a batch": make_script(
        extended_query("begin") + extended_query("select 1/0") + SYNC,
        extended_query("select 1") + SYNC,
        extended_query("rollback") + SYNC,
    ),
    "a constraint at the end of a batch": make_script(
        extended_query("insert into later values (1)") + extended_query("insert into later values (1)") + SYNC,
        query("table later"),
    ),
    "a pipeline": make_script(
        extended_query("select 1")
        + SYNC
        + extended_query("select 1/0")
        + extended_query("select 2")
        + SYNC
        + extended_query("select 3")
        + SYNC
    ),
    "a pipeline over transactions": make_script(
        extended_query("begin")
        + SYNC
        + extended_query("insert into things values (1)")
        + SYNC
        + extended_query("commit")
        + SYNC
        + extended_query("begin")
        + SYNC
        + extended_query("insert into things values (2)")
        + SYNC
        + extended_query("rollback")
        + SYNC
        + extended_query("table things")
        + SYNC,
    ),
    "a pipeline of statements": make_script(
        parse("s", "select $1::integer")
        + SYNC
        + bind_and_execute("s", "1")
        + SYNC
        + close("S", "s")
        + SYNC
        + bind_and_execute("s", "2")
        + SYNC
        + parse("s", "select 3")
        + bind_and_execute("s")
        + SYNC
        + bind_and_execute("s")
        + SYNC,
    ),
    "simple and extended in one write": make_script(
        extended_query("select 1")
        + SYNC
        + query("select 2")
        + parse("s", "select 3")
        + SYNC
        + query("begin")
        + bind_and_execute("s")
        + SYNC
        + query("commit")
    ),
    "simple without a Sync before": make_script(
        parse("s", "select 1") + bind_and_execute("s") + query("select 2"), bind_and_execute("s") + SYNC
    ),
    "a few rows at a time": make_script(
        query("begin"),
        parse("s", LONG_READ) + bind("p", "s") + execute("p", 4) + SYNC,
        execute("p", 4) + SYNC,
        execute("p", 4) + SYNC,
        execute("p", 4) + SYNC,
        close("P", "p") + SYNC,
        execute("p", 4) + SYNC,
        query("rollback"),
    ),
    "a few rows at a time in one batch": make_script(
        parse("", LONG_READ) + bind("p", "") + execute("p", 4) + execute("p", 4) + execute("p") + SYNC
    ),
    "a portal ends with its transaction": make_script(
        parse("s", LONG_READ) + bind("p", "s") + execute("p", 4) + SYNC, execute("p", 4) + SYNC
    ),
    "no such portal": make_script(execute("p") + SYNC, describe("P", "p") + SYNC, close("P", "p") + SYNC),
    "a portal of that name": make_script(
        query("begin"), parse("s", LONG_READ) + bind("p", "s") + bind("p", "s") + SYNC, query("rollback")
    ),
}
