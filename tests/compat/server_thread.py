"""A platform that listens on a port, in a thread with its own event loop, for clients that need a socket.

Every response is checked against the contract.
"""

import asyncio
import shutil
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
import uvicorn

from bough import app
from bough.api.app import create_app
from bough.config import Settings
from bough.control.services import Services
from support.contract import load_contract
from support.contract_checks import ContractChecker
from support.platform import install_templates, make_settings, temporary_folder

T = TypeVar("T")


class ServerThread:
    """The URL and key of the platform; `contract_checker` checks its responses."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.contract_checker = ContractChecker(load_contract())
        self.url = f"http://127.0.0.1:{settings.api_port}"
        self.key = app.load_operator_key(settings)
        self.failure: BaseException | None = None
        self.services: Services | None = None  # only without a platform
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.stopping: asyncio.Future[bool] = self.loop.create_future()

    def run(self, serving: "ServeFunction") -> None:
        try:
            self.loop.run_until_complete(serving(self))
        except BaseException as error:
            self.failure = error
        finally:
            self.ready.set()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def wait_until_ready(self) -> None:
        assert self.ready.wait(60), "the platform did not become ready"
        if self.failure is not None:
            raise self.failure

    def run_coroutine(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the event loop of the platform and returns its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def stop(self) -> None:
        """Stops the platform and its computes."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.stopping.set_result, True)


ServeFunction = Callable[[ServerThread], Awaitable[None]]


async def serve_platform(listener: ServerThread) -> None:
    """Starts the platform as `bough up` runs it."""
    patch = pytest.MonkeyPatch()
    patch.setattr(
        app, "create_app", lambda services, routes: listener.contract_checker.wrap_app(create_app(services, routes))
    )

    def ready() -> None:
        patch.undo()
        listener.ready.set()

    await app.serve(listener.settings, ready=ready, stopping=listener.stopping)


async def serve_api_only(listener: ServerThread) -> None:
    """Starts the API without running operations, so that tests can create many projects without Postgres."""
    async with app.assemble_platform(listener.settings) as platform:
        listener.services = platform.services
        server = _server(platform.services, listener.contract_checker)
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():  # noqa: ASYNC110  uvicorn has a flag, not an event
            await asyncio.sleep(0.005)
        listener.ready.set()
        await listener.stopping
        server.should_exit = True
        await serving


def _server(services: Services, checker: ContractChecker) -> uvicorn.Server:
    checked_app = checker.wrap_app(create_app(services))
    port = services.settings.api_port or 0
    return uvicorn.Server(uvicorn.Config(checked_app, port=port, log_config=None, access_log=False, lifespan="off"))


@contextmanager
def run_server(serving: ServeFunction, **changes: object) -> Iterator[ServerThread]:
    with temporary_folder() as folder:
        settings = make_settings(
            folder,
            **{
                "api_port": _free_port(),
                "gateway_port": _free_port(),
                "rate_per_minute": 10**9,
                "rate_per_second_and_route": 10**9,
                "rate_per_minute_and_address": 10**9,
                **changes,
            },
        )
        install_templates(settings.home)
        listener = ServerThread(settings)
        thread = threading.Thread(target=listener.run, args=(serving,))
        thread.start()
        try:
            listener.wait_until_ready()
            yield listener
        finally:
            listener.stop()
            thread.join()
            shutil.rmtree(settings.sockets, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
