"""Statements that find subscriptions and detach them from their publishers.

`pg_subscription` is shared by all databases, so all subscriptions can be changed at once from any database. The
statements update the catalog directly: ALTER SUBSCRIPTION would need a session in each database, and some databases
do not allow connections.
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

# The same as DISABLE and SET (slot_name = NONE): it stops, and DROP SUBSCRIPTION does not contact the publisher.
DISABLE_ALL = """
    update pg_catalog.pg_subscription set subenabled = false, subslotname = null
     where subenabled or subslotname is not null
"""
# Runs in one database. Tables that are still being copied have slots on the publisher, which DROP SUBSCRIPTION would
# drop. REFRESH PUBLICATION adds the tables again.
DELETE_UNSYNCED_TABLES = "delete from pg_catalog.pg_subscription_rel where srsubstate <> 'r'"

MAP_PATH = "global/pg_filenode.map"
_MAGIC = 0x592717
_CATALOG = 6100  # oid of pg_subscription in every version
_HEAD = struct.Struct("<II")  # magic number and number of pairs
_PAIR = struct.Struct("<II")  # oid of a catalog and its file node
_MOST = 64


def find_catalog_file(mapping: bytes) -> str | None:
    """Return the file of pg_subscription in a stopped server from `pg_filenode.map`, or None if the map is invalid.

    An empty file means that there are no subscriptions. A file that is not empty may contain only dropped ones.
    """
    if len(mapping) < _HEAD.size:
        return None
    magic, count = _HEAD.unpack_from(mapping)
    if magic != _MAGIC or count > _MOST or len(mapping) < _HEAD.size + count * _PAIR.size:
        return None
    pairs = dict(_PAIR.iter_unpack(mapping[_HEAD.size : _HEAD.size + count * _PAIR.size]))
    return f"global/{pairs[_CATALOG]}" if _CATALOG in pairs else None
