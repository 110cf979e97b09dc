"""The Postgres settings that a tenant cannot set for an endpoint, and what to do instead."""

_SIZE = """
    commit_timestamp_buffers effective_cache_size huge_page_size huge_pages max_connections
    max_files_per_process max_stack_depth min_dynamic_shared_memory multixact_member_buffers
    multixact_offset_buffers notify_buffers serializable_buffers shared_buffers subtransaction_buffers
    transaction_buffers wal_buffers
"""
_SESSIONS = """
    application_name array_nulls backend_flush_after client_encoding client_min_messages composite_type_mismatch
    createrole_self_grant debug_logical_replication_streaming debug_parallel_query debug_pretty_print debug_print_parse
    debug_print_plan debug_print_rewritten default_table_access_method default_toast_compression
    escape_string_warning file_copy_method force_parallel_mode icu_validation_level io_combine_limit
    jit_expressions jit_tuple_deforming lc_monetary lc_numeric lc_time md5_password_warnings
    quote_all_identifiers row_security tcp_keepalives_count tcp_keepalives_idle tcp_keepalives_interval
    tcp_user_timeout timezone_abbreviations trace_notify trace_sort transform_null_equals wal_skip_threshold
"""
_PLATFORM = """
    allow_alter_system allow_in_place_tablespaces allow_system_table_mods archive_cleanup_command
    archive_command archive_library archive_mode archive_timeout authentication_timeout
    autovacuum_worker_slots backslash_quote backtrace_functions bgwriter_delay bgwriter_flush_after
    bgwriter_lru_maxpages bgwriter_lru_multiplier block_size bonjour bonjour_name checkpoint_completion_target
    checkpoint_flush_after checkpoint_timeout checkpoint_warning cluster_name config_file data_checksums
    data_directory data_directory_mode data_sync_retry db_user_namespace debug_assertions debug_discard_caches
    debug_io_direct default_tablespace default_transaction_read_only dynamic_library_path
    dynamic_shared_memory_type event_source event_triggers exit_on_error extension_control_path
    extension_destdir external_pid_file file_extend_method fsync full_page_writes gss_accept_delegation
    hba_file hot_standby huge_pages_status ident_file ignore_checksum_failure ignore_invalid_pages
    ignore_system_indexes in_hot_standby integer_datetimes io_max_combine_limit io_max_concurrency io_method
    jit_debugging_support jit_dump_bitcode jit_profiling_support jit_provider krb_caseins_users
    krb_server_keyfile lc_collate lc_ctype lc_messages listen_addresses lo_compat_privileges
    local_preload_libraries log_destination log_directory log_error_verbosity log_executor_stats log_file_mode
    log_filename log_hostname log_line_prefix log_min_messages log_parser_stats log_planner_stats
    log_rotation_age log_rotation_size log_startup_progress_interval log_statement_stats log_timezone
    log_truncate_on_rotation logging_collector max_active_replication_origins max_function_args
    max_identifier_length max_index_keys max_notify_queue_pages max_wal_size min_wal_size num_os_semaphores
    oauth_validator_libraries old_snapshot_threshold output_plugin_libraries password_encryption port
    post_auth_delay pre_auth_delay primary_conninfo primary_slot_name promote_trigger_file
    recovery_end_command recovery_init_sync_method
    recovery_min_apply_delay recovery_prefetch recovery_target recovery_target_action
    recovery_target_inclusive recovery_target_lsn recovery_target_name recovery_target_time
    recovery_target_timeline recovery_target_xid remove_temp_files_after_crash reserved_connections
    restart_after_crash restore_command restrict_nonsystem_relation_kind scram_iterations segment_size
    send_abort_for_crash send_abort_for_kill server_encoding server_version server_version_num
    session_preload_libraries session_replication_role shared_memory_size shared_memory_size_in_huge_pages
    shared_memory_type shared_preload_libraries ssl ssl_ca_file ssl_cert_file ssl_ciphers ssl_crl_dir
    ssl_crl_file ssl_dh_params_file ssl_ecdh_curve ssl_groups ssl_key_file ssl_library
    ssl_max_protocol_version ssl_min_protocol_version ssl_passphrase_command
    ssl_passphrase_command_supports_reload ssl_prefer_server_ciphers ssl_tls13_ciphers
    standard_conforming_strings stats_temp_directory summarize_wal superuser_reserved_connections
    sync_replication_slots synchronized_standby_slots synchronous_standby_names syslog_facility syslog_ident
    syslog_sequence_numbers syslog_split_messages temp_tablespaces trace_connection_negotiation
    trace_recovery_messages track_activities transaction_deferrable transaction_isolation
    transaction_read_only unix_socket_directories unix_socket_group unix_socket_permissions
    update_process_title vacuum_defer_cleanup_age wal_block_size wal_consistency_checking
    wal_decode_buffer_size wal_init_zero wal_keep_size wal_log_hints wal_receiver_create_temp_slot
    wal_receiver_status_interval wal_receiver_timeout wal_recycle wal_retrieve_retry_interval wal_segment_size
    wal_summary_keep_time wal_sync_method wal_writer_delay wal_writer_flush_after zero_damaged_pages
"""

_REASONS = {
    _SIZE: "follows from the size of the compute: change autoscaling_limit_max_cu instead",
    _SESSIONS: "cannot be set for a whole endpoint: use ALTER ROLE … SET or ALTER DATABASE … SET",
    _PLATFORM: "is managed by the platform and cannot be set",
    "temp_file_limit": "follows from the plan of the project's organization: choose a larger plan instead",
    "wal_level": "follows from the project's setting enable_logical_replication: change that instead",
    # Without autovacuum, transaction ids run out and tables only grow.
    "autovacuum track_counts": "stays on: tune it with the other autovacuum settings, or switch it off for a single "
    "table with ALTER TABLE … SET (autovacuum_enabled = off)",
}
RESERVED_SETTINGS = {name: reason for names, reason in _REASONS.items() for name in names.split()}
