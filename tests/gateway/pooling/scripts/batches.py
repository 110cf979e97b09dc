"""The extended protocol: batches, pipelines and portals."""

from gateway.pooling.phrases import FLUSH, SYNC, ask, bind, close, describe, execute, parse, query, use
from gateway.pooling.scripts.writes import LONG_READ, Script, writes

BATCHES: dict[str, Script] = {
    "a text": writes(ask("select $1::integer + 1, $2::text", "41", None) + SYNC),
    "nothing": writes(ask("") + SYNC, SYNC, SYNC + SYNC, FLUSH + SYNC),
    "several in a batch": writes(ask("insert into things values ($1::integer)", "1") + ask("table things") + SYNC),
    "an error in Parse": writes(parse("s", "selec") + use("s") + SYNC, parse("s", "select 1") + use("s") + SYNC),
    "an error in Bind": writes(
        parse("s", "select $1::integer") + use("s", "x") + use("s", "1") + SYNC, use("s", "2") + SYNC
    ),
    "an error in Execute": writes(
        ask("insert into things values (1)") + ask("select 1/$1::integer", "0") + SYNC, ask("table things") + SYNC
    ),
    "a transaction": writes(
        ask("begin") + SYNC,
        ask("insert into things values (1)") + SYNC,
        ask("commit") + SYNC,
        ask("table things") + SYNC,
    ),
    "a transaction in a batch": writes(
        ask("begin") + ask("insert into things values (1)") + ask("commit") + ask("table things") + SYNC
    ),
    "left open by a batch": writes(
        ask("begin") + ask("select 1/0") + SYNC, ask("select 1") + SYNC, ask("rollback") + SYNC
    ),
    "a constraint at the end of a batch": writes(
        ask("insert into later values (1)") + ask("insert into later values (1)") + SYNC, query("table later")
    ),
    "a pipeline": writes(ask("select 1") + SYNC + ask("select 1/0") + ask("select 2") + SYNC + ask("select 3") + SYNC),
    "a pipeline over transactions": writes(
        ask("begin")
        + SYNC
        + ask("insert into things values (1)")
        + SYNC
        + ask("commit")
        + SYNC
        + ask("begin")
        + SYNC
        + ask("insert into things values (2)")
        + SYNC
        + ask("rollback")
        + SYNC
        + ask("table things")
        + SYNC,
    ),
    "a pipeline of statements": writes(
        parse("s", "select $1::integer")
        + SYNC
        + use("s", "1")
        + SYNC
        + close("S", "s")
        + SYNC
        + use("s", "2")
        + SYNC
        + parse("s", "select 3")
        + use("s")
        + SYNC
        + use("s")
        + SYNC,
    ),
    "simple and extended in one write": writes(
        ask("select 1")
        + SYNC
        + query("select 2")
        + parse("s", "select 3")
        + SYNC
        + query("begin")
        + use("s")
        + SYNC
        + query("commit")
    ),
    "simple without a Sync before": writes(parse("s", "select 1") + use("s") + query("select 2"), use("s") + SYNC),
    "a few rows at a time": writes(
        query("begin"),
        parse("s", LONG_READ) + bind("p", "s") + execute("p", 4) + SYNC,
        execute("p", 4) + SYNC,
        execute("p", 4) + SYNC,
        execute("p", 4) + SYNC,
        close("P", "p") + SYNC,
        execute("p", 4) + SYNC,
        query("rollback"),
    ),
    "a few rows at a time in one batch": writes(
        parse("", LONG_READ) + bind("p", "") + execute("p", 4) + execute("p", 4) + execute("p") + SYNC
    ),
    "a portal ends with its transaction": writes(
        parse("s", LONG_READ) + bind("p", "s") + execute("p", 4) + SYNC, execute("p", 4) + SYNC
    ),
    "no such portal": writes(execute("p") + SYNC, describe("P", "p") + SYNC, close("P", "p") + SYNC),
    "a portal of that name": writes(
        query("begin"), parse("s", LONG_READ) + bind("p", "s") + bind("p", "s") + SYNC, query("rollback")
    ),
}
