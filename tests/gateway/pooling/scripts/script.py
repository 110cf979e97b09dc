"""What clients say in their sessions, write by write; at the pooled host the answers are those of the direct one.

A script may use the tables `things (id integer, name text)` and `later (id integer)`, whose constraint is checked at
the commit. Names of statements are short and common, so other clients are likely to have the same.
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


def make_copy_write(*pieces: bytes, answers: int = 1) -> Write:
    """A Sync that Postgres meets while it waits for copied rows has no answer."""
    return Write(b"".join(pieces), answers)


def make_script(*pieces: bytes | Write) -> Script:
    return [piece if isinstance(piece, Write) else Write(piece, count_ready_for_query(piece)) for piece in pieces]
