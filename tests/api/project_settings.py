"""Request bodies with every documented project setting, with values other than the defaults, except `hipaa`."""

from support.api_client import Json

SETTINGS: Json = {
    "quota": {
        "active_time_seconds": 1,
        "compute_time_seconds": 2,
        "written_data_bytes": 3,
        "data_transfer_bytes": 4,
        "logical_size_bytes": 2**63 - 1,
    },
    "allowed_ips": {"ips": ["192.0.2.1", "2001:db8::/32", "10.0.0.1-10.0.0.9"], "protected_branches_only": True},
    "enable_logical_replication": True,
    "maintenance_window": {"weekdays": [1, 7], "start_time": "01:30", "end_time": "02:30"},
    "block_public_connections": True,
    "block_vpc_connections": True,
    "audit_log_level": "extended",
    "hipaa": False,
    "preload_libraries": {"use_defaults": True, "enabled_libraries": ["pg_stat_statements"]},
}
ENDPOINT_SETTINGS: Json = {
    "pg_settings": {"work_mem": "8MB"},
    "pgbouncer_settings": {"pool_mode": "transaction"},
    "autoscaling_limit_min_cu": 0.5,
    "autoscaling_limit_max_cu": 2,
    "suspend_timeout_seconds": 600,
}
