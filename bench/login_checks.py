"""The time to the login challenge does not reveal which roles and endpoints exist.

Logins at an ordinary platform stop at the challenge, alternating between an existing role, an unknown role and an
unknown endpoint. The tests show that all take the same work; this measures the remaining difference.
"""

import socket
import ssl
import statistics
import time
from collections.abc import Callable, Iterator

from bench import program
from bench.program import Program
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import print_note
from bench.sizes import Sizes

ROUNDS = 9
ROUNDS_OF_ENDPOINT = 3  # beyond this, the limit on failed logins of all clients applies
TRIES = 12  # per kind and round: fewer than the limit on unfinished logins of a client
TOLERANCE = 0.1  # accepted ratio of two equal times on a noisy machine
ONE_WORKER = {"BOUGH_GATEWAY_WORKERS": "1"}  # each worker counts separately
ROLE = "neondb_owner"  # of a new project
KINDS = ("known role", "unknown role", "unknown endpoint")
_SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)


def measure(_: Sizes) -> Iterator[Promise]:
    with program.run_platform(variables=ONE_WORKER) as platform:
        endpoints = [_endpoint(platform) for _ in range(ROUNDS // ROUNDS_OF_ENDPOINT)]
        logins = LoginTimer(platform)
        times: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for number in range(ROUNDS):
            print_note(f"round {number + 1}")
            endpoint = endpoints[number // ROUNDS_OF_ENDPOINT]
            where = {KINDS[0]: (endpoint, ROLE), KINDS[1]: (endpoint, "nobody")}
            where[KINDS[2]] = f"ep-calm-sea-{number:08}", ROLE
            for kind, median in logins.measure_medians(f"127.0.1.{number + 1}", where).items():
                times[kind].append(median)
    yield _build_promise(times)


def _endpoint(platform: Program) -> str:
    with platform.client() as client:
        created = client.post("/projects", json={"project": {}}).raise_for_status().json()
    platform.wait_until_finished(created)
    return str(created["endpoints"][0]["id"])


class LoginTimer:
    def __init__(self, platform: Program) -> None:
        self._port = platform.gateway_port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def measure_medians(self, source: str, where: dict[str, tuple[str, str]]) -> dict[str, float]:
        """Alternate, so that noise of the machine affects all kinds."""
        durations: dict[str, list[float]] = {kind: [] for kind in where}
        for _ in range(TRIES):
            for kind, (endpoint, role) in where.items():
                durations[kind].append(self._time_challenge(source, endpoint, role))
        return {kind: statistics.median(samples) for kind, samples in durations.items()}

    def _time_challenge(self, source: str, endpoint: str, role: str) -> float:
        """Return milliseconds from the startup packet to the challenge."""
        with socket.create_connection(("127.0.0.1", self._port), source_address=(source, 0)) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.sendall(_SSL_REQUEST)
            plain.recv(1)
            with self._context.wrap_socket(plain) as line:
                return _timed(lambda: line.sendall(_startup(endpoint, role)), lambda: line.recv(4096))


def _timed(ask: Callable[[], None], response: Callable[[], bytes]) -> float:
    started_at = time.perf_counter()
    ask()
    output = response()
    durations = time.perf_counter() - started_at
    if output[:1] != b"R":
        raise RuntimeError(f"no challenge came: {output[:200]!r}")
    return durations * 1e3


def _startup(endpoint: str, role: str) -> bytes:
    parameters = {"user": role, "database": "neondb", "options": f"endpoint={endpoint}"}
    body = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items()) + b"\0"
    return (len(body) + 8).to_bytes(4) + (3 << 16).to_bytes(4) + body


def _build_promise(times: dict[str, list[float]]) -> Promise:
    figures = {kind: Measurement(name=kind, unit="ms", samples=tuple(samples)) for kind, samples in times.items()}
    known = figures[KINDS[0]]
    ratios = [
        make_ratio(f"{KINDS[0]} to {kind}", known, figures[kind], below=1 + TOLERANCE, above=1 - TOLERANCE)
        for kind in KINDS[1:]
    ]
    return Promise(
        name="login_checks",
        sentence="Existing roles and endpoints are challenged as fast as unknown ones.",
        measurements=tuple(figures.values()),
        ratios=tuple(ratios),
        how=(
            "startup packet to challenge over TLS, one gateway worker; the client disconnects at the challenge;",
            f"a round: {TRIES} logins of each kind, alternating, from a separate address; medians",
        ),
        baseline=("the same login with an unknown role or endpoint",),
    )
