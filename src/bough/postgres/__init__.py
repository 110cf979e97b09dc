"""Knowledge of Postgres, wherever it runs. No processes, no connections: text in, text out."""

ADMIN_ROLE = "bough_admin"  # our superuser, reached by peer only
REPLICA_ROLE = "bough_replica"  # who read replicas are where they read from; reached by password only
TENANTS_ROLE = "bough_tenants"  # the group every role made by the API belongs to
RESERVED_PREFIX = "bough_"
MAINTENANCE_DATABASE = "postgres"
