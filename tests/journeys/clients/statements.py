"""Statements that all clients run."""

SLEEP = "select pg_sleep(60)"
COUNT_SLEEPING = f"select count(*) from pg_stat_activity where query like '{SLEEP}%' and wait_event = 'PgSleep'"
LARGE_RESULT = "select repeat('x', 10240) from generate_series(1, 10240)"
NOTIFY = "select pg_notify('news', word) from unnest(array['one', 'two']) word"

# Statements that create the table for COPY.
TEMPORARY_TABLE = ("create temp table copied (n int, word text)",)
PERMANENT_TABLE = ("drop table if exists copied", "create table copied (n int, word text)")
