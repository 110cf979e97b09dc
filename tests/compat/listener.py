"""A platform that really listens, in a thread with an event loop of its own.

For clients that need a socket. Every answer it gives is compared with the contract on its way out.
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

import world
from bough import app
from bough.api.app import create_app
from bough.config import Settings
from bough.control.parts import Parts
from compat.contract import published
from compat.watch import Watch

T = TypeVar("T")


class Listener:
    """Where it is and the key to it; `watch` knows what it answered."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.watch = Watch(published())
        self.url = f"http://127.0.0.1:{settings.api_port}"
        self.key = app.operator_key(settings)
        self.failure: BaseException | None = None
        self.parts: Parts | None = None  # of a front alone
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.stopping: asyncio.Future[bool] = self.loop.create_future()

    def run(self, serving: "Serving") -> None:
        try:
            self.loop.run_until_complete(serving(self))
        except BaseException as error:
            self.failure = error
        finally:
            self.ready.set()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def await_ready(self) -> None:
        assert self.ready.wait(60), "the platform did not become ready"
        if self.failure is not None:
            raise self.failure

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """The answer of something that must run where the platform runs."""
        return asyncio.run_coroutine_threadsafe(question, self.loop).result()

    def stop(self) -> None:
        """With its computes."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.stopping.set_result, True)


Serving = Callable[[Listener], Awaitable[None]]


async def whole(listener: Listener) -> None:
    """The platform as `bough up` runs it."""
    patch = pytest.MonkeyPatch()
    patch.setattr(app, "create_app", lambda parts, guests: listener.watch.around(create_app(parts, guests)))

    def ready() -> None:
        patch.undo()
        listener.ready.set()

    await app.serve(listener.settings, ready=ready, stopping=listener.stopping)


async def front_only(listener: Listener) -> None:
    """It answers, but nobody does the work: a thousand projects cost no Postgres."""
    async with app.assembled(listener.settings) as platform:
        listener.parts = platform.parts
        server = _server(platform.parts, listener.watch)
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():  # noqa: ASYNC110  uvicorn has a flag, not an event
            await asyncio.sleep(0.005)
        listener.ready.set()
        await listener.stopping
        server.should_exit = True
        await serving


def _server(parts: Parts, watch: Watch) -> uvicorn.Server:
    watched = watch.around(create_app(parts))
    port = parts.settings.api_port or 0
    return uvicorn.Server(uvicorn.Config(watched, port=port, log_config=None, access_log=False, lifespan="off"))


@contextmanager
def listening(serving: Serving, **changes: object) -> Iterator[Listener]:
    with world.short_folder() as folder:
        settings = world.settings_for(
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
        world.furnish(settings.home)
        listener = Listener(settings)
        thread = threading.Thread(target=listener.run, args=(serving,))
        thread.start()
        try:
            listener.await_ready()
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
