"""Knowledge about Postgres as pure functions and SQL text: no processes and no connections."""

ADMIN_ROLE = "bough_admin"  # the platform's superuser, which can log in by peer authentication only
REPLICA_ROLE = "bough_replica"  # read replicas log in with it on their primary, by password only
TENANTS_ROLE = "bough_tenants"  # the group of all roles that are created with the API
RESERVED_PREFIX = "bough_"
MAINTENANCE_DATABASE = "postgres"
