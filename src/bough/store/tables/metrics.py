"""Tables of metrics over time. Moments are seconds since 1970, because they are multiples of the points' steps."""

import sqlalchemy as sa

from bough.store.tables.columns import json, metadata, partial_index, text

# One row for the samples of several series at one moment. `shard` depends on the name of the series, so that reading
# one series does not read all others, and writing many takes a few rows.
metric_samples = sa.Table(
    "metric_samples",
    metadata,
    sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("is_rolled_up", sa.Boolean, nullable=False),
    sa.Column("stored_bytes", sa.Integer, nullable=False),
    sa.Column("points", sa.LargeBinary, nullable=False),
    partial_index("ix_metric_samples_pending", "not is_rolled_up", "at"),
)
IS_PENDING: sa.ColumnElement[bool] = sa.literal_column("not is_rolled_up", sa.Boolean)  # as in the index

# One row for the minutes of an hour, or the hours of a day, of one series.
metric_chunks = sa.Table(
    "metric_chunks",
    metadata,
    text("series", primary_key=True),
    sa.Column("step", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("stored_bytes", sa.Integer, nullable=False),
    sa.Column("points", sa.LargeBinary, nullable=False),
    sa.Index("ix_metric_chunks_sizes", "step", "at", "stored_bytes"),
)

# The counters of each compute when they were last read, from which the next sample counts. As in the tables above, rows
# of deleted endpoints are removed later.
metric_counters = sa.Table(
    "metric_counters",
    metadata,
    text("endpoint_id", primary_key=True),
    json("reading"),
)
