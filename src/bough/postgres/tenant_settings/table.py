"""The settings that a tenant may set for an endpoint, grouped by topic.

A test compares them with `pg_settings` of real servers. Settings that name files, programs, libraries or addresses,
control who can log in, or affect the durability of data are in `reserved.py`.
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
MAX_PREPARED_TRANSACTIONS = 1000  # the highest value of the setting for one endpoint
_INT_MAX = 2**31 - 1
# With less, a copy of the running branch could lose the WAL it needs; with more, the disk could fill up.
SLOT_WAL_KEEP_SIZE = IntegerType(minimum=-1, maximum=_INT_MAX, unit="MB", allowed_range=(1024, 16_384))
_FLOAT_MAX = 1.7976931348623157e308

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
    needs_restart: bool = False  # a reload is not enough


def _booleans(names: str, since: int = OLDEST_MAJOR) -> Iterator[Setting]:
    for name in names.split():
        yield Setting(name=name, value_type=BoolType(), since=since)


def _integers(
    names: str, minimum: int, maximum: int = _INT_MAX, unit: Unit = "", since: int = OLDEST_MAJOR
) -> Iterator[Setting]:
    for name in names.split():
        yield Setting(name=name, value_type=IntegerType(minimum=minimum, maximum=maximum, unit=unit), since=since)


def _reals(names: str, minimum: float, maximum: float, unit: Unit = "", since: int = OLDEST_MAJOR) -> Iterator[Setting]:
    for name in names.split():
        yield Setting(name=name, value_type=RealType(minimum=minimum, maximum=maximum, unit=unit), since=since)


def _timeouts(names: str, since: int = OLDEST_MAJOR) -> Iterator[Setting]:
    """With a timeout below one second, sessions could end before the client can change the setting back."""
    for name in names.split():
        value_type = IntegerType(minimum=0, maximum=_INT_MAX, unit="ms", allowed_range=(1000, _INT_MAX), off_value=0)
        yield Setting(name=name, value_type=value_type, since=since)


def _startup_limit(name: str, minimum: int, maximum: int, bounds: tuple[int, int], unit: Unit = "") -> Setting:
    """Settings that reserve shared memory or processes at startup, limited so that every compute can start."""
    return Setting(
        name=name,
        value_type=IntegerType(minimum=minimum, maximum=maximum, unit=unit, allowed_range=bounds),
        needs_restart=True,
    )


PLANNER = (
    *_booleans("""
        enable_async_append enable_bitmapscan enable_gathermerge enable_hashagg enable_hashjoin
        enable_incremental_sort enable_indexonlyscan enable_indexscan enable_material enable_memoize
        enable_mergejoin enable_nestloop enable_parallel_append enable_parallel_hash enable_partition_pruning
        enable_partitionwise_aggregate enable_partitionwise_join enable_seqscan enable_sort enable_tidscan
        geqo jit
    """),
    *_booleans("enable_presorted_aggregate", since=16),
    *_booleans("enable_group_by_reordering", since=17),
    *_booleans("enable_distinct_reordering enable_self_join_elimination", since=18),
    *_reals("seq_page_cost random_page_cost cpu_tuple_cost cpu_index_tuple_cost cpu_operator_cost", 0, _FLOAT_MAX),
    *_reals("parallel_setup_cost parallel_tuple_cost", 0, _FLOAT_MAX),
    *_reals("jit_above_cost jit_inline_above_cost jit_optimize_above_cost", -1, _FLOAT_MAX),
    *_reals("cursor_tuple_fraction geqo_seed", 0, 1),
    *_reals("geqo_selection_bias", 1.5, 2),
    *_reals("recursive_worktable_factor", 0.001, 1e6, since=15),
    *_integers("from_collapse_limit join_collapse_limit", 1),
    *_integers("default_statistics_target", 1, 10_000),
    *_integers("geqo_effort", 1, 10),
    *_integers("geqo_generations geqo_pool_size", 0),
    *_integers("geqo_threshold", 2),
    *_integers("min_parallel_index_scan_size min_parallel_table_scan_size", 0, 715_827_882, "8kB"),
    Setting(name="constraint_exclusion", value_type=EnumType(("partition", "on", "off"))),
    Setting(name="plan_cache_mode", value_type=EnumType(("auto", "force_generic_plan", "force_custom_plan"))),
)

MEMORY = (
    *_integers("work_mem logical_decoding_work_mem gin_pending_list_limit", 64, unit="kB"),
    Setting(name="maintenance_work_mem", value_type=IntegerType(minimum=1024, maximum=_INT_MAX, unit="kB"), until=16),
    Setting(name="maintenance_work_mem", value_type=IntegerType(minimum=64, maximum=_INT_MAX, unit="kB"), since=17),
    *_integers("temp_buffers", 100, 2**30 - 1, "8kB"),
    *_reals("hash_mem_multiplier", 1, 1000),
    Setting(
        name="vacuum_buffer_usage_limit",
        value_type=IntegerType(minimum=0, maximum=16_777_216, unit="kB", allowed_range=(128, 16_777_216), off_value=0),
        since=16,
    ),
)

TIMEOUTS = (
    *_integers("statement_timeout lock_timeout client_connection_check_interval", 0, unit="ms"),
    *_timeouts("idle_in_transaction_session_timeout idle_session_timeout"),
    *_timeouts("transaction_timeout", since=17),
    *_integers("deadlock_timeout", 1, unit="ms"),
)

VACUUM = (
    *_integers("autovacuum_naptime", 1, 2_147_483, "s"),
    *_integers("autovacuum_work_mem", -1, unit="kB"),
    *_integers("autovacuum_vacuum_threshold autovacuum_analyze_threshold", 0),
    *_integers("autovacuum_vacuum_insert_threshold", -1),
    *_integers("autovacuum_vacuum_max_threshold", -1, since=18),
    *_integers("autovacuum_vacuum_cost_limit", -1, 10_000),
    *_reals("autovacuum_vacuum_cost_delay", -1, 100, "ms"),
    *_reals("autovacuum_vacuum_scale_factor autovacuum_vacuum_insert_scale_factor", 0, 100),
    *_reals("autovacuum_analyze_scale_factor", 0, 100),
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
    *_reals("vacuum_cost_delay", 0, 100, "ms"),
    *_integers("vacuum_cost_limit", 1, 10_000),
    *_integers("vacuum_cost_page_dirty vacuum_cost_page_hit vacuum_cost_page_miss", 0, 10_000),
    *_integers("vacuum_freeze_min_age vacuum_multixact_freeze_min_age", 0, 1_000_000_000),
    *_integers("vacuum_freeze_table_age vacuum_multixact_freeze_table_age", 0, 2_000_000_000),
    *_integers("vacuum_failsafe_age vacuum_multixact_failsafe_age", 0, 2_100_000_000),
    *_reals("vacuum_max_eager_freeze_failure_rate", 0, 1, since=18),
    *_booleans("vacuum_truncate", since=18),
)

WORKERS = (
    *_integers("max_parallel_workers max_parallel_workers_per_gather max_parallel_maintenance_workers", 0, 1024),
    *_booleans("parallel_leader_participation"),
    _startup_limit("max_worker_processes", 0, 262_143, (0, 64)),
    *_integers("effective_io_concurrency maintenance_io_concurrency", 0, 1000),
    *_integers("io_workers", 1, 32, since=18),
)

LOCKS = (
    _startup_limit("max_locks_per_transaction", 10, _INT_MAX, (10, 512)),
    _startup_limit("max_pred_locks_per_transaction", 10, _INT_MAX, (10, 512)),
    _startup_limit("max_prepared_transactions", 0, 262_143, (0, MAX_PREPARED_TRANSACTIONS)),
    *_integers("max_pred_locks_per_page", 0),
    *_integers("max_pred_locks_per_relation", -(2**31)),
)

REPLICATION = (
    *_timeouts("wal_sender_timeout"),
    Setting(name="max_slot_wal_keep_size", value_type=SLOT_WAL_KEEP_SIZE),
    *_integers("idle_replication_slot_timeout", 0, unit="s", since=18),
    *_integers("max_standby_archive_delay max_standby_streaming_delay", -1, unit="ms"),
    *_booleans("hot_standby_feedback"),
    # Read replicas and copies use these too, so the minimum is the platform's default.
    _startup_limit("max_wal_senders", 0, 262_143, (int(COMPUTE_DEFAULTS["max_wal_senders"]), 50)),
    _startup_limit("max_replication_slots", 0, 262_143, (int(COMPUTE_DEFAULTS["max_replication_slots"]), 100)),
    _startup_limit("max_logical_replication_workers", 0, 262_143, (0, 32)),
    Setting(
        name="max_sync_workers_per_subscription",
        value_type=IntegerType(minimum=0, maximum=262_143, allowed_range=(0, 32)),
    ),
    *_integers("max_parallel_apply_workers_per_subscription", 0, 1024, since=16),
    Setting(name="track_commit_timestamp", value_type=BoolType(), needs_restart=True),
)

COMMIT = (
    Setting(name="synchronous_commit", value_type=EnumType(("local", "remote_write", "remote_apply", "on", "off"))),
    *_integers("commit_delay", 0, 100_000),
    *_integers("commit_siblings", 0, 1000),
    Setting(name="wal_compression", value_type=BoolType(), until=14),
    Setting(name="wal_compression", value_type=EnumType(("pglz", "on", "off")), since=15),
)

LOGGING = (
    Setting(name="log_statement", value_type=EnumType(("none", "ddl", "mod", "all"))),
    *_integers("log_min_duration_statement log_min_duration_sample log_autovacuum_min_duration", -1, unit="ms"),
    *_reals("log_statement_sample_rate log_transaction_sample_rate", 0, 1),
    *_booleans("log_checkpoints log_disconnections log_duration log_lock_waits log_recovery_conflict_waits"),
    *_booleans("log_replication_commands"),
    *_booleans("log_lock_failures", since=18),
    Setting(name="log_connections", value_type=BoolType(), until=17),
    Setting(
        name="log_connections", value_type=ListedType(frozenset({"on", "off", "all"}), "one of on, off, all"), since=18
    ),
    *_integers("log_temp_files", -1, unit="kB"),
    *_integers("log_parameter_max_length log_parameter_max_length_on_error", -1, 2**30 - 1, "B"),
    Setting(name="log_min_error_statement", value_type=EnumType(_LEVELS)),
)

STATISTICS = (
    *_booleans("track_io_timing track_wal_io_timing"),
    *_booleans("track_cost_delay_timing", since=18),
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
            "the current name of a time zone, such as Europe/Berlin",
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
    *_booleans("default_transaction_deferrable check_function_bodies synchronize_seqscans"),
    Setting(name="bytea_output", value_type=EnumType(("escape", "hex"))),
    Setting(name="xmlbinary", value_type=EnumType(("base64", "hex"))),
    Setting(name="xmloption", value_type=EnumType(("content", "document"))),
    *_integers("extra_float_digits", -15, 3),
    *_integers("gin_fuzzy_search_limit", 0),
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
    """Map names in lower case to settings."""
    return {setting.name: setting for setting in ALL_SETTINGS if setting.since <= major <= setting.until}
