"""The one place that chooses: which store, which engine, which edges; starts and stops them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import uvicorn

from bough import log
from bough.access.keys import Keys
from bough.access.vault import Vault, secret_file
from bough.api.app import create_app
from bough.api.given import Parts
from bough.api.limits import Limiter
from bough.config import Settings
from bough.control import defaults
from bough.control.figures import Figures
from bough.control.key_use import KeyUse
from bough.control.operator import ensure_operator_key
from bough.domain.endpoint import Hosts
from bough.engine.local.engine import LocalEngine
from bough.engine.port import Engine
from bough.errors import Unavailable
from bough.operations.actions import EVERY
from bough.operations.events import Events
from bough.operations.queue import Queue
from bough.operations.runner import Runner
from bough.store.postgres import PostgresStore
from bough.store.sqlite import SqliteStore
from bough.store.store import Store
from bough.tasks.forget_answers import ForgetAnswers
from bough.tasks.forget_logs import ForgetLogs
from bough.tasks.keep_computes import KeepComputes
from bough.tasks.loop import Loop
from bough.tasks.measure_branches import MeasureBranches
from bough.tasks.purge_deleted import PurgeDeleted
from bough.tasks.rotate_logs import RotateLogs
from bough.tasks.write_key_use import WriteKeyUse

DEFAULT_API_PORT = 8432
DEFAULT_GATEWAY_PORT = 5432
STOPPING_AT_ONCE = 8

logger = log.get(room="app")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Everything that runs, for whoever drives it: the server here, a test elsewhere."""

    parts: Parts
    runner: Runner
    loop: Loop


def operator_key(settings: Settings) -> str:
    """The operator's token; made at the first call."""
    _make_keys_folder(settings)
    keys = Keys(b"")  # a token is made without the server's secret
    return secret_file(settings.keys / "operator", keys.new().token.encode()).decode().strip()


async def serve(settings: Settings, *, ready: Callable[[], None], stopping: asyncio.Future[bool]) -> None:
    """Run the platform until `stopping` has a result; True there means: stop the computes too."""
    with _listening(settings) as listener:
        async with assembled(settings) as platform, AsyncExitStack() as stack:
            server = _Server(platform.parts, listener)
            await stack.enter_async_context(_running(platform.runner.run()))
            await stack.enter_async_context(_running(platform.loop.run()))
            await stack.enter_async_context(server.running())
            logger.info("ready", home=str(settings.home), store=platform.parts.store.name)
            ready()
            computes_too = await stopping
            await stack.aclose()
            await platform.parts.key_use.write(platform.parts.store)
            if computes_too:
                await _stop_computes(platform.parts.engine)
            logger.info("stopped", computes_too=computes_too)


@asynccontextmanager
async def assembled(settings: Settings) -> AsyncIterator[Platform]:
    """The parts, put together and open; nothing runs yet."""
    settings.home.mkdir(parents=True, exist_ok=True)
    _make_keys_folder(settings)
    keys = Keys(secret_file(settings.keys / "api-keys"))
    store = _store(settings)
    await store.open()
    try:
        await ensure_operator_key(store, keys, operator_key(settings))
        engine = LocalEngine(settings, spare_cu=defaults.MAX_CU)
        await engine.prepare()
        yield _platform(settings, store, engine, keys)
        await engine.close()
    finally:
        await store.close()


def _platform(settings: Settings, store: Store, engine: Engine, keys: Keys) -> Platform:
    events = Events()
    queue = Queue(store, events, EVERY, settings.hold_seconds)
    key_use = KeyUse()
    figures = Figures()
    parts = Parts(
        settings=settings,
        store=store,
        queue=queue,
        engine=engine,
        vault=Vault(secret_file(settings.keys / "passwords")),
        keys=keys,
        hosts=Hosts(domain=settings.domain, port=settings.gateway_port or DEFAULT_GATEWAY_PORT),
        limiter=Limiter(settings),
        key_use=key_use,
        figures=figures,
    )
    tasks = (
        KeepComputes(store, engine, queue),
        PurgeDeleted(store, queue),
        WriteKeyUse(store, key_use),
        MeasureBranches(store, engine, figures),
        ForgetAnswers(store),
        RotateLogs(settings),
        ForgetLogs(settings, store, engine),
    )
    return Platform(
        parts=parts,
        runner=Runner(store, engine, events, EVERY, settings.operation_workers),
        loop=Loop(store, tasks),
    )


def _store(settings: Settings) -> Store:
    return PostgresStore(settings.store_url) if settings.store_url else SqliteStore(settings.store_file)


def _make_keys_folder(settings: Settings) -> None:
    settings.keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.keys.chmod(0o700)


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    port = settings.api_port or DEFAULT_API_PORT
    family = socket.AF_INET6 if ":" in settings.listen else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.listen, port))
        except OSError as error:
            raise Unavailable(
                f"The API cannot listen on {settings.listen} port {port}: {error.strerror}. "
                "Choose another with --api-port."
            ) from error
        yield listener


class _Server:
    """uvicorn, without its own signal handling."""

    def __init__(self, parts: Parts, listener: socket.socket) -> None:
        config = uvicorn.Config(
            create_app(parts),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=10,
        )
        self._server = uvicorn.Server(config)
        self._server.capture_signals = _no_signals  # type: ignore[method-assign]
        self._listener = listener

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        while not self._server.started and not serving.done():  # noqa: ASYNC110  uvicorn has a flag, not an event
            await asyncio.sleep(0.005)
        try:
            yield
        finally:
            self._server.should_exit = True
            await serving


@contextmanager
def _no_signals() -> Iterator[None]:
    yield


@asynccontextmanager
async def _running(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _stop_computes(engine: Engine) -> None:
    """The rows stay active: the next start starts them again."""
    seen = await engine.observe()
    running = seen.running | seen.spare
    gate = asyncio.Semaphore(STOPPING_AT_ONCE)

    async def stop(endpoint: Any) -> None:
        async with gate:
            await engine.ensure_suspended(endpoint)

    await asyncio.gather(*(stop(endpoint) for endpoint in running))
