"""The output plugins that logical replication may use: libraries that decode WAL for a client."""

# wal2json is in builds that have the package.
OUTPUT_PLUGINS = ("pgoutput", "test_decoding", "wal2json")
