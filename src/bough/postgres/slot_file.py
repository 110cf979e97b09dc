"""The file `state` of a replication slot, which tells its output plugin.

The layout is that of `ReplicationSlotOnDisk` in src/backend/replication/slot.c. Up to the plugin it is the same in
versions 14 to 18.
"""

STATE_FILE = "state"
MAX_BYTES = 4096  # Postgres writes about 200
DELETED_SUFFIX = ".tmp"  # Postgres removes slots with this suffix at its start
_PLUGIN_OFFSET, _NAME_BYTES = 129, 64


def parse_plugin(state: bytes) -> bytes:
    """Return the output plugin; empty for a physical slot, and for a file that Postgres rejects for its length."""
    return state[_PLUGIN_OFFSET : _PLUGIN_OFFSET + _NAME_BYTES].partition(b"\0")[0]
