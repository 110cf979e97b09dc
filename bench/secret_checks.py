"""Response times do not reveal whether an address has an account, or whether the public part of an API key exists.

An ordinary platform gets HTTP requests that alternate between existing and unknown objects: sign-ins with a wrong
password, requests for a mail, and calls with a key whose secret part is wrong. The tests show that both take the same
work; this measures the remaining difference.
"""

import ipaddress
import itertools
import re
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2

from bench import program
from bench.program import Program
from bench.promise import Measurement, Promise, make_ratio
from bench.sizes import Sizes

ROUNDS = 9
PAIRS = {"sign in": 12, "request a mail": 12, "key": 400}  # per round, of each kind
ACCOUNTS = 40  # an address gets few mails per hour
TOLERANCE = 0.1  # accepted ratio of two equal times on a noisy machine
NO_LIMIT = {"BOUGH_RATE_PER_MINUTE_AND_ADDRESS": "1000000000"}

TimedRequest = Callable[[bool], float]  # takes whether the object exists; returns milliseconds


def measure(_: Sizes) -> Iterator[Promise]:
    with program.run_platform(variables=NO_LIMIT) as platform:
        asking = SecretProbe(platform)
        times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in PAIRS}
        for _round in range(ROUNDS):
            for name, ask in asking.requests.items():
                for samples, median in zip(times[name], _medians(ask, PAIRS[name]), strict=True):
                    samples.append(median)
    yield _build_promise(times)


class SecretProbe:
    """A client that tries to find out what exists."""

    def __init__(self, platform: Program) -> None:
        self._pages = httpx2.Client(base_url=f"http://127.0.0.1:{platform.port}", timeout=60)
        self._origin = str(self._pages.base_url).rstrip("/")
        self._client_addresses = (str(ipaddress.ip_address("10.0.0.1") + number) for number in itertools.count())
        known = [f"known{number}@example.com" for number in range(ACCOUNTS)]
        with platform.client() as client:
            for email in known:
                created = client.post("/bough/users", json={"email": email}).raise_for_status().json()
                self._set_password(created["link"].rpartition("=")[2])
        self._addresses = {
            True: itertools.cycle(known),
            False: (f"other{number}@example.com" for number in itertools.count()),
        }
        public, secret = platform.key[:22], platform.key[22:]
        self._keys = {True: public + secret[::-1], False: "bough_key_".ljust(22, "x") + secret}
        self.requests: dict[str, TimedRequest] = {
            "sign in": lambda known: self._post("/signin", 401, known, password="not the password"),
            "request a mail": lambda known: self._post("/forgot", 200, known),
            "key": self._get,
        }

    def _set_password(self, link: str) -> None:
        """Set a password with a separate client, which then has a session."""
        with httpx2.Client(base_url=self._pages.base_url, timeout=60) as browser:
            headers = self._new_client_headers()
            token = _form_token(browser.get("/reset", params={"token": link}, headers=headers))
            data = {"form_token": token, "token": link, "password": "a password of their own"}
            response = browser.post("/reset", headers=headers, data=data)
            if response.status_code != 303:
                raise RuntimeError(f"the password could not be set: {response.text[:200]}")

    def _post(self, path: str, status: int, known: bool, **fields: str) -> float:
        headers = self._new_client_headers()
        token = _form_token(self._pages.get(path, headers=headers))
        data = {"form_token": token, "email": next(self._addresses[known]), **fields}
        return self._timed("POST", path, status, headers=headers, data=data)

    def _new_client_headers(self) -> dict[str, str]:
        """Return a new client address for each request, because wrong attempts are limited by address."""
        return {"Origin": self._origin, "X-Forwarded-For": next(self._client_addresses)}

    def _get(self, known: bool) -> float:
        headers = {"Authorization": f"Bearer {self._keys[known]}"}
        return self._timed("GET", "/api/v2/auth", 401, headers=headers)

    def _timed(self, method: str, path: str, status: int, **options: Any) -> float:
        started_at = time.perf_counter()
        response = self._pages.request(method, path, **options)
        durations = time.perf_counter() - started_at
        if response.status_code != status:
            raise RuntimeError(f"{method} {path} returned {response.status_code}: {response.text[:200]}")
        return durations * 1e3


def _form_token(page: httpx2.Response) -> str:
    return str(re.findall(r'name="form_token" value="(\w+)"', page.text)[0])


def _medians(ask: TimedRequest, pairs: int) -> tuple[float, float]:
    """Alternate between existing and unknown objects."""
    durations = [(ask(True), ask(False)) for _ in range(pairs)]
    known, unknown = zip(*durations, strict=True)
    return statistics.median(known), statistics.median(unknown)


def _build_promise(times: dict[str, tuple[list[float], list[float]]]) -> Promise:
    figures: list[Measurement] = []
    ratios: list[Measurement] = []
    for name, (known, unknown) in times.items():
        over = Measurement(name=f"{name}: known", unit="ms", samples=tuple(known))
        under = Measurement(name=f"{name}: unknown", unit="ms", samples=tuple(unknown))
        figures += (over, under)
        ratios.append(make_ratio(f"{name}, known to unknown", over, under, below=1 + TOLERANCE, above=1 - TOLERANCE))
    return Promise(
        name="secret_checks",
        sentence="Rejecting existing and unknown account addresses and API keys takes the same time.",
        measurements=tuple(figures),
        ratios=tuple(ratios),
        how=(
            "POST /signin with a wrong password, POST /forgot, GET /auth with a wrong key, on one connection;",
            f"a round: {', '.join(f'{count} pairs of {name}' for name, count in PAIRS.items())}, alternating; medians",
        ),
        baseline=("the same call with an unknown address or public part of a key",),
    )
