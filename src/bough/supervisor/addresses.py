"""The address of a running platform's API."""

from dataclasses import dataclass

# Maps each wildcard bind address to the loopback address of the same family.
WILDCARD_ADDRESSES = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing binds here


@dataclass(frozen=True, slots=True)
class ApiAddress:
    listen: str
    api_port: int
    inodes: tuple[int, ...] = ()  # inodes of the listening sockets that the supervisor holds

    @property
    def host(self) -> str:
        """An address that a client on this machine can connect to."""
        return WILDCARD_ADDRESSES.get(self.listen, self.listen)

    @property
    def base_url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.api_port}"

    @property
    def api_url(self) -> str:
        return f"{self.base_url}/api/v2"

    @property
    def instant_url(self) -> str:
        return f"{self.base_url}/api/v1"

    @property
    def console_url(self) -> str:
        return f"{self.base_url}/"
