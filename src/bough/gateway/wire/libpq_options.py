"""Options of libpq connection strings that some drivers send to the server as startup parameters.

Postgres would reject the connection, because it has no settings with these names. Options that are also startup
parameters (`application_name`, `client_encoding`, `options`, `replication`) are not listed.
"""

_NAMES = """
    host hostaddr port dbname password passfile require_auth channel_binding connect_timeout
    fallback_application_name keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout
    gssencmode krbsrvname gsslib gssdelegation requirepeer service servicefile
    requiressl sslcompression sslmode sslnegotiation sslcert sslkey sslkeylogfile sslpassword sslcertmode sslrootcert
    sslcrl sslcrldir sslsni ssl_min_protocol_version ssl_max_protocol_version min_protocol_version
    max_protocol_version target_session_attrs load_balance_hosts scram_client_key scram_server_key
    oauth_issuer oauth_client_id oauth_client_secret oauth_scope
"""
LIBPQ_OPTIONS = frozenset(_NAMES.split())
