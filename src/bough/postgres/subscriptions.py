"""Subscriptions: whether there are any, and statements that part them from their publishers. Pure.

`pg_subscription` is one for all databases, so what it says can be changed at once and from anywhere. It is written
to as it is: `alter subscription` would need a session in each database, and some let nobody in.
"""

import struct

HAS_ANY = "select exists (select from pg_catalog.pg_subscription)"
SELECT_IN_DATABASE = """
    select pg_catalog.namesend(subname) from pg_catalog.pg_subscription
      join pg_catalog.pg_database on pg_database.oid = subdbid
     where datname = $1 order by subname
"""
SELECT_DATABASES = """
    select pg_catalog.namesend(datname) from pg_catalog.pg_database
     where datallowconn and datconnlimit <> -2 and oid in (select subdbid from pg_catalog.pg_subscription)
"""

# As after `disable` and `set (slot_name = none)`: it follows nobody, and to drop it asks nobody.
DISABLE_ALL = """
    update pg_catalog.pg_subscription set subenabled = false, subslotname = null
     where subenabled or subslotname is not null
"""
# In one database: tables that are still being copied have slots of their own at the publisher, which to drop
# the subscription would drop. A refresh adds them again.
DELETE_UNSYNCED_TABLES = "delete from pg_catalog.pg_subscription_rel where srsubstate <> 'r'"

MAP_PATH = "global/pg_filenode.map"
_MAGIC = 0x592717
_CATALOG = 6100  # pg_subscription's own number, the same in every version
_HEAD = struct.Struct("<II")  # the magic number, and how many pairs follow
_PAIR = struct.Struct("<II")  # a catalog's own number, and the one its file is named by
_MOST = 64


def find_catalog_file(mapping: bytes) -> str | None:
    """Where a server that is shut down keeps its subscriptions, by its map; None when the map is none.

    An empty file holds none. One that is not empty may hold such that were dropped.
    """
    if len(mapping) < _HEAD.size:
        return None
    magic, count = _HEAD.unpack_from(mapping)
    if magic != _MAGIC or count > _MOST or len(mapping) < _HEAD.size + count * _PAIR.size:
        return None
    pairs = dict(_PAIR.iter_unpack(mapping[_HEAD.size : _HEAD.size + count * _PAIR.size]))
    return f"global/{pairs[_CATALOG]}" if _CATALOG in pairs else None
