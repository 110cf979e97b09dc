"""Simple queries, with and without transactions."""

from gateway.pooling.scripts.script import LONG_READ, Script, make_script
from support.protocol_messages import query

SIMPLE_QUERY_SCRIPTS: dict[str, Script] = {
    "one statement": make_script(query("select 1, null, 'three'")),
    "several statements": make_script(
        query("select 1; insert into things values (1); table things; delete from things")
    ),
    "nothing": make_script(query(""), query(" ; ; "), query("-- a comment")),
    "an error": make_script(query("select 1/0"), query("select nothing"), query("selec 1"), query("select 1")),
    "an error among several": make_script(
        query("insert into things values (1); select 1/0; select 2"), query("table things")
    ),
    "a transaction": make_script(
        query("begin"), query("insert into things values (1)"), query("commit"), query("table things")
    ),
    "a transaction in one": make_script(query("begin; insert into things values (1); commit; table things")),
    "begun in the middle": make_script(query("select 1; begin; insert into things values (1)"), query("rollback")),
    "ended in the middle": make_script(
        query("begin"), query("insert into things values (1); commit; select 2"), query("table things")
    ),
    "one after the other": make_script(query("begin"), query("commit; begin"), query("commit; begin; commit")),
    "a chain": make_script(query("begin"), query("commit and chain"), query("rollback and chain"), query("end")),
    "an error in a transaction": make_script(
        query("begin"), query("select 1/0"), query("select 1"), query("commit"), query("select 1")
    ),
    "savepoints": make_script(
        query("begin; insert into things values (1); savepoint a"),
        query("insert into things values (2); select 1/0"),
        query("rollback to a"),
        query("insert into things values (3); release a; table things"),
        query("commit"),
        query("table things"),
    ),
    "words that do not fit": make_script(
        query("commit"), query("rollback"), query("begin"), query("begin"), query("abort")
    ),
    "a constraint at the commit": make_script(
        query("begin"), query("insert into later values (1), (1)"), query("commit"), query("table later")
    ),
    "a cursor": make_script(
        query("begin; declare c cursor for " + LONG_READ),
        query("fetch 3 from c; move 2 in c"),
        query("fetch c; close c; commit"),
    ),
    "a procedure that commits": make_script(
        query("call in_parts()"), query("table things"), query("begin; call in_parts()"), query("rollback")
    ),
    "isolation": make_script(
        query("begin isolation level serializable, read only"),
        query("show transaction_isolation"),
        query("insert into things values (1)"),
        query("rollback"),
        query("show transaction_isolation"),
    ),
    "outside of transactions only": make_script(
        query("vacuum things"), query("begin; vacuum things"), query("rollback")
    ),
    "told by notices": make_script(
        query("do $$ begin raise notice 'hello'; end $$"), query("drop table if exists nothing")
    ),
    "told its parameters": make_script(
        query("set timezone = 'Asia/Tokyo'"),
        query("begin; set local timezone = 'UTC'"),
        query("commit"),
        query("show timezone"),
    ),
    "several in one write": make_script(
        query("select 1") + query("begin") + query("select 1/0") + query("rollback") + query("select 2")
    ),
    "notify": make_script(query("notify a, 'b'"), query("unlisten a"), query("unlisten *")),
}
