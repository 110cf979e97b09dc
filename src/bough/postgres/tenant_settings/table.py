"""The settings that a tenant may give an endpoint, by what they are about: the names and nothing but facts.

A test compares them with `pg_settings` of real servers. Not here is what names files, programs, libraries or
addresses, decides who gets in, or how safely data is written; see `withheld.py`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bough.postgres.postgresql_conf import COMPUTE_DEFAULTS
from bough.postgres.tenant_settings import time_zones
from bough.postgres.tenant_settings.value_types import (
    BoolType,
    EnumType,
    IntegerType,
    ListedType,
    PatternType,
    RealType,
    Unit,
    ValueType,
)

OLDEST_MAJOR, NEWEST_MAJOR = 14, 18  # major versions
MAX_PREPARED_TRANSACTIONS = 1000  # transactions of an endpoint that ask for it
_MOST = 2**31 - 1
# With less a copy of the running branch might lose the WAL it needs, with more the disk would fill.
SLOT_WAL_KEEP_SIZE = IntegerType(minimum=-1, maximum=_MOST, unit="MB", allowed_range=(1024, 16_384))
_COST = 1.7976931348623157e308

_IDENTIFIER = r'([A-Za-z_][A-Za-z0-9_$]{0,62}|"[^"\x00-\x1f\x7f]{1,63}")'
_NAMES = re.compile(rf"({_IDENTIFIER}( *, *{_IDENTIFIER})*)?")
TEXT_SEARCHES = """
    arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian indonesian irish
    italian lithuanian nepali norwegian portuguese romanian russian serbian simple spanish swedish tamil turkish yiddish
""".split()
_DATE_STYLE = re.compile(
    r"(iso|sql|postgres|german)( *, *(ymd|dmy|mdy))?|(ymd|dmy|mdy)( *, *(iso|sql|postgres|german))?", re.IGNORECASE
)
_ISOLATION = ("serializable", "repeatable read", "read committed", "read uncommitted")
_LEVELS = ("info", "notice", "warning", "error", "log", "fatal", "panic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    name: str
    value_type: ValueType
    since: int = OLDEST_MAJOR
    until: int = NEWEST_MAJOR
    needs_restart: bool = False  # it comes into force by a restart, not by a reload


def _flags(names: str, since: int = OLDEST_MAJOR) -> Iterator[Setting]:
    for name in names.split():
        yield Setting(name=name, value_type=BoolType(), since=since)


def _whole(names: str, least: int, most: int = _MOST, unit: Unit = "", since: int = OLDEST_MAJOR) -> Iterator[Setting]:
    for name in names.split():
        yield Setting(name=name, value_type=IntegerType(minimum=least, maximum=most, unit=unit), since=since)


def _real(names: str, least: float, most: float, unit: Unit = "", since: int = OLDEST_MAJOR) -> Iterator[Setting]:
    for name in names.split():
        yield Setting(name=name, value_type=RealType(minimum=least, maximum=most, unit=unit), since=since)


def _timeout(names: str, since: int = OLDEST_MAJOR) -> Iterator[Setting]:
    """One below a second would end sessions before they can say anything, and with them the way back."""
    for name in names.split():
        kind = IntegerType(minimum=0, maximum=_MOST, unit="ms", allowed_range=(1000, _MOST), off_value=0)
        yield Setting(name=name, value_type=kind, since=since)


def _startup_limit(name: str, least: int, most: int, bounds: tuple[int, int], unit: Unit = "") -> Setting:
    """What is set aside at the start, in shared memory or processes: bounded, so that every compute starts."""
    return Setting(
        name=name,
        value_type=IntegerType(minimum=least, maximum=most, unit=unit, allowed_range=bounds),
        needs_restart=True,
    )


PLANNER = (
    *_flags("""
        enable_async_append enable_bitmapscan enable_gathermerge enable_hashagg enable_hashjoin
        enable_incremental_sort enable_indexonlyscan enable_indexscan enable_material enable_memoize
        enable_mergejoin enable_nestloop enable_parallel_append enable_parallel_hash enable_partition_pruning
        enable_partitionwise_aggregate enable_partitionwise_join enable_seqscan enable_sort enable_tidscan
        geqo jit
    """),
    *_flags("enable_presorted_aggregate", since=16),
    *_flags("enable_group_by_reordering", since=17),
    *_flags("enable_distinct_reordering enable_self_join_elimination", since=18),
    *_real("seq_page_cost random_page_cost cpu_tuple_cost cpu_index_tuple_cost cpu_operator_cost", 0, _COST),
    *_real("parallel_setup_cost parallel_tuple_cost", 0, _COST),
    *_real("jit_above_cost jit_inline_above_cost jit_optimize_above_cost", -1, _COST),
    *_real("cursor_tuple_fraction geqo_seed", 0, 1),
    *_real("geqo_selection_bias", 1.5, 2),
    *_real("recursive_worktable_factor", 0.001, 1e6, since=15),
    *_whole("from_collapse_limit join_collapse_limit", 1),
    *_whole("default_statistics_target", 1, 10_000),
    *_whole("geqo_effort", 1, 10),
    *_whole("geqo_generations geqo_pool_size", 0),
    *_whole("geqo_threshold", 2),
    *_whole("min_parallel_index_scan_size min_parallel_table_scan_size", 0, 715_827_882, "8kB"),
    Setting(name="constraint_exclusion", value_type=EnumType(("partition", "on", "off"))),
    Setting(name="plan_cache_mode", value_type=EnumType(("auto", "force_generic_plan", "force_custom_plan"))),
)

MEMORY = (
    *_whole("work_mem logical_decoding_work_mem gin_pending_list_limit", 64, unit="kB"),
    Setting(name="maintenance_work_mem", value_type=IntegerType(minimum=1024, maximum=_MOST, unit="kB"), until=16),
    Setting(name="maintenance_work_mem", value_type=IntegerType(minimum=64, maximum=_MOST, unit="kB"), since=17),
    *_whole("temp_buffers", 100, 2**30 - 1, "8kB"),
    *_real("hash_mem_multiplier", 1, 1000),
    Setting(
        name="vacuum_buffer_usage_limit",
        value_type=IntegerType(minimum=0, maximum=16_777_216, unit="kB", allowed_range=(128, 16_777_216), off_value=0),
        since=16,
    ),
)

TIMEOUTS = (
    *_whole("statement_timeout lock_timeout client_connection_check_interval", 0, unit="ms"),
    *_timeout("idle_in_transaction_session_timeout idle_session_timeout"),
    *_timeout("transaction_timeout", since=17),
    *_whole("deadlock_timeout", 1, unit="ms"),
)

VACUUM = (
    *_whole("autovacuum_naptime", 1, 2_147_483, "s"),
    *_whole("autovacuum_work_mem", -1, unit="kB"),
    *_whole("autovacuum_vacuum_threshold autovacuum_analyze_threshold", 0),
    *_whole("autovacuum_vacuum_insert_threshold", -1),
    *_whole("autovacuum_vacuum_max_threshold", -1, since=18),
    *_whole("autovacuum_vacuum_cost_limit", -1, 10_000),
    *_real("autovacuum_vacuum_cost_delay", -1, 100, "ms"),
    *_real("autovacuum_vacuum_scale_factor autovacuum_vacuum_insert_scale_factor", 0, 100),
    *_real("autovacuum_analyze_scale_factor", 0, 100),
    Setting(
        name="autovacuum_max_workers",
        value_type=IntegerType(minimum=1, maximum=262_143, allowed_range=(1, 32)),
        until=17,
        needs_restart=True,
    ),
    Setting(
        name="autovacuum_max_workers",
        value_type=IntegerType(minimum=1, maximum=262_143, allowed_range=(1, 32)),
        since=18,
    ),
    Setting(
        name="autovacuum_freeze_max_age",
        value_type=IntegerType(minimum=100_000, maximum=2_000_000_000),
        needs_restart=True,
    ),
    Setting(
        name="autovacuum_multixact_freeze_max_age",
        value_type=IntegerType(minimum=10_000, maximum=2_000_000_000),
        needs_restart=True,
    ),
    *_real("vacuum_cost_delay", 0, 100, "ms"),
    *_whole("vacuum_cost_limit", 1, 10_000),
    *_whole("vacuum_cost_page_dirty vacuum_cost_page_hit vacuum_cost_page_miss", 0, 10_000),
    *_whole("vacuum_freeze_min_age vacuum_multixact_freeze_min_age", 0, 1_000_000_000),
    *_whole("vacuum_freeze_table_age vacuum_multixact_freeze_table_age", 0, 2_000_000_000),
    *_whole("vacuum_failsafe_age vacuum_multixact_failsafe_age", 0, 2_100_000_000),
    *_real("vacuum_max_eager_freeze_failure_rate", 0, 1, since=18),
    *_flags("vacuum_truncate", since=18),
)

WORKERS = (
    *_whole("max_parallel_workers max_parallel_workers_per_gather max_parallel_maintenance_workers", 0, 1024),
    *_flags("parallel_leader_participation"),
    _startup_limit("max_worker_processes", 0, 262_143, (0, 64)),
    *_whole("effective_io_concurrency maintenance_io_concurrency", 0, 1000),
    *_whole("io_workers", 1, 32, since=18),
)

LOCKS = (
    _startup_limit("max_locks_per_transaction", 10, _MOST, (10, 512)),
    _startup_limit("max_pred_locks_per_transaction", 10, _MOST, (10, 512)),
    _startup_limit("max_prepared_transactions", 0, 262_143, (0, MAX_PREPARED_TRANSACTIONS)),
    *_whole("max_pred_locks_per_page", 0),
    *_whole("max_pred_locks_per_relation", -(2**31)),
)

REPLICATION = (
    *_timeout("wal_sender_timeout"),
    Setting(name="max_slot_wal_keep_size", value_type=SLOT_WAL_KEEP_SIZE),
    *_whole("idle_replication_slot_timeout", 0, unit="s", since=18),
    *_whole("max_standby_archive_delay max_standby_streaming_delay", -1, unit="ms"),
    *_flags("hot_standby_feedback"),
    # Read replicas and copies take some of these too: never fewer than the platform gives everybody.
    _startup_limit("max_wal_senders", 0, 262_143, (int(COMPUTE_DEFAULTS["max_wal_senders"]), 50)),
    _startup_limit("max_replication_slots", 0, 262_143, (int(COMPUTE_DEFAULTS["max_replication_slots"]), 100)),
    _startup_limit("max_logical_replication_workers", 0, 262_143, (0, 32)),
    Setting(
        name="max_sync_workers_per_subscription",
        value_type=IntegerType(minimum=0, maximum=262_143, allowed_range=(0, 32)),
    ),
    *_whole("max_parallel_apply_workers_per_subscription", 0, 1024, since=16),
    Setting(name="track_commit_timestamp", value_type=BoolType(), needs_restart=True),
)

COMMIT = (
    Setting(name="synchronous_commit", value_type=EnumType(("local", "remote_write", "remote_apply", "on", "off"))),
    *_whole("commit_delay", 0, 100_000),
    *_whole("commit_siblings", 0, 1000),
    Setting(name="wal_compression", value_type=BoolType(), until=14),
    Setting(name="wal_compression", value_type=EnumType(("pglz", "on", "off")), since=15),
)

LOGGING = (
    Setting(name="log_statement", value_type=EnumType(("none", "ddl", "mod", "all"))),
    *_whole("log_min_duration_statement log_min_duration_sample log_autovacuum_min_duration", -1, unit="ms"),
    *_real("log_statement_sample_rate log_transaction_sample_rate", 0, 1),
    *_flags("log_checkpoints log_disconnections log_duration log_lock_waits log_recovery_conflict_waits"),
    *_flags("log_replication_commands"),
    *_flags("log_lock_failures", since=18),
    Setting(name="log_connections", value_type=BoolType(), until=17),
    Setting(
        name="log_connections", value_type=ListedType(frozenset({"on", "off", "all"}), "one of on, off, all"), since=18
    ),
    *_whole("log_temp_files", -1, unit="kB"),
    *_whole("log_parameter_max_length log_parameter_max_length_on_error", -1, 2**30 - 1, "B"),
    Setting(name="log_min_error_statement", value_type=EnumType(_LEVELS)),
)

STATISTICS = (
    *_flags("track_io_timing track_wal_io_timing"),
    *_flags("track_cost_delay_timing", since=18),
    Setting(name="track_functions", value_type=EnumType(("none", "pl", "all"))),
    Setting(name="compute_query_id", value_type=EnumType(("auto", "regress", "on", "off"))),
    Setting(name="stats_fetch_consistency", value_type=EnumType(("none", "cache", "snapshot")), since=15),
    _startup_limit("track_activity_query_size", 100, 1_048_576, (100, 16_384), "B"),
)

SESSIONS = (
    Setting(
        name="timezone",
        value_type=ListedType(
            frozenset(name.lower() for name in time_zones.TIME_ZONES),
            "a time zone by its present name, such as Europe/Berlin",
        ),
    ),
    Setting(name="datestyle", value_type=PatternType(_DATE_STYLE, "a style and an order of fields, such as ISO, DMY")),
    Setting(name="intervalstyle", value_type=EnumType(("postgres", "postgres_verbose", "sql_standard", "iso_8601"))),
    Setting(
        name="search_path",
        value_type=PatternType(_NAMES, 'names of schemas with commas between them, such as "$user", public'),
    ),
    Setting(
        name="default_text_search_config",
        value_type=ListedType(
            frozenset(f"{schema}{name}" for schema in ("", "pg_catalog.") for name in TEXT_SEARCHES),
            "one of Postgres's own configurations, such as pg_catalog.english",
        ),
    ),
    Setting(name="default_transaction_isolation", value_type=EnumType(_ISOLATION)),
    *_flags("default_transaction_deferrable check_function_bodies synchronize_seqscans"),
    Setting(name="bytea_output", value_type=EnumType(("escape", "hex"))),
    Setting(name="xmlbinary", value_type=EnumType(("base64", "hex"))),
    Setting(name="xmloption", value_type=EnumType(("content", "document"))),
    *_whole("extra_float_digits", -15, 3),
    *_whole("gin_fuzzy_search_limit", 0),
)

TOPICS = {
    "Planner": PLANNER,
    "Memory of a session": MEMORY,
    "Timeouts": TIMEOUTS,
    "Vacuum": VACUUM,
    "Parallel work": WORKERS,
    "Locks and prepared transactions": LOCKS,
    "Replication": REPLICATION,
    "Commit": COMMIT,
    "Log": LOGGING,
    "Statistics": STATISTICS,
    "Sessions": SESSIONS,
}
ALL_SETTINGS = tuple(setting for settings in TOPICS.values() for setting in settings)


def available_settings(major: int) -> dict[str, Setting]:
    """By name, in small letters."""
    return {setting.name: setting for setting in ALL_SETTINGS if setting.since <= major <= setting.until}
