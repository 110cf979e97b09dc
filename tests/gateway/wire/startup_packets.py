"""First packets as clients send them, written by hand."""


def packet(code: int, body: bytes = b"") -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + code.to_bytes(4, "big") + body


def startup(*fields: str | bytes, minor: int = 0, end: bytes = b"\0") -> bytes:
    raw = [field if isinstance(field, bytes) else field.encode() for field in fields]
    return packet(0x30000 + minor, b"".join(word + b"\0" for word in raw) + end)


SSL = bytes.fromhex("0000000804d2162f")
GSS = bytes.fromhex("0000000804d21630")
CANCEL = bytes.fromhex("0000001004d2162e0000303900000007")
LIBPQ_15 = startup(
    "user", "alice", "database", "shop", "application_name", "psql", "client_encoding", "UTF8", "options", "-c geqo=off"
)
LIBPQ_18 = startup("user", "alice", "database", "shop", "_pq_.test_protocol_negotiation", "", minor=9999)
JDBC = startup(
    "user", "alice", "database", "shop", "client_encoding", "UTF8", "DateStyle", "ISO", "TimeZone", "Europe/Zurich",
    "extra_float_digits", "2", "options", "endpoint=ep-calm-sea-1a2b3c4d",
)  # fmt: skip
ASYNCPG = startup("client_encoding", "'utf-8'", "user", "alice", "database", "shop")
REPLICATION = startup("user", "alice", "database", "shop", "replication", "database")
