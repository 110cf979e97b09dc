"""Scripts of client sessions, write by write, for which the pooled and the direct host must give the same replies.

A script may use the tables `things (id integer, name text)` and `later (id integer)`, whose constraint is deferred
to the commit. Statement names are short and common, so that other clients are likely to use the same.
"""

from typing import NamedTuple

from support.protocol_messages import count_ready_for_query

SETUP = """
    create table things (id integer, name text);
    create table later (id integer unique deferrable initially deferred);
    create procedure in_parts() language plpgsql as
        $$ begin insert into things values (71); commit; insert into things values (72); end $$;
"""
LONG_READ = "select * from generate_series(1, 10)"


class Write(NamedTuple):
    data: bytes
    replies: int


Script = list[Write]


def make_copy_write(*chunks: bytes, replies: int = 1) -> Write:
    """A Sync that Postgres reads while it waits for COPY data has no reply."""
    return Write(b"".join(chunks), replies)


def make_script(*chunks: bytes | Write) -> Script:
    return [chunk if isinstance(chunk, Write) else Write(chunk, count_ready_for_query(chunk)) for chunk in chunks]
