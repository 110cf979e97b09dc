"""The values of a sample that follow from several sources: connections, CPU time and the lag of a read replica."""

from bough.domain.pooler import PoolStats


def connection_values(client_connections: int, pool: PoolStats | None) -> dict[str, float]:
    """Divide the clients of an endpoint into direct and pooled ones. `client_connections` includes both."""
    stats = pool or PoolStats()
    pooled = stats.clients_active + stats.clients_waiting + stats.clients_idle
    return {
        "connections_direct": max(0, client_connections - pooled),
        "connections_pooled": pooled,
        "connections_of_pools": stats.servers_active + stats.servers_idle,
    }


def cpu_values(before: float, now: float, seconds: float) -> dict[str, float]:
    """Return the CPU time since the previous sample, and the cores that it occupied on average."""
    used = max(0.0, now - before)
    return {"cpu_seconds": used, "cpu_cores": used / seconds if seconds > 0 else 0.0}


def lag_values(primary_position: int | None, replayed: int | None, age: float | None) -> dict[str, float]:
    """Return how far a read replica is behind. It is empty if that is unknown."""
    if primary_position is None or replayed is None:
        return {}
    behind = max(0, primary_position - replayed)
    if not behind:
        return {"replica_lag_bytes": 0, "replica_lag_seconds": 0.0}
    return {"replica_lag_bytes": behind} | ({} if age is None else {"replica_lag_seconds": max(0.0, age)})
