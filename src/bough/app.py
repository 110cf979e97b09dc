"""Chooses the store, the engine and the servers, assembles the platform, starts and stops it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bough import clock, log
from bough.access.keys import Keys
from bough.access.metrics_token import load_metrics_token
from bough.access.passwords import Passwords
from bough.access.vault import Vault, load_or_create_secret
from bough.api.app import create_app
from bough.api.gateway_api import GatewayApiApp, GatewayApiHandlers
from bough.api.server import open_listeners, serve_http, serve_unix_socket
from bough.background_task import run_in_background
from bough.config import Settings, is_root
from bough.control import defaults
from bough.control.gateway.access import AccessResolver
from bough.control.gateway.activity import EndpointActivity
from bough.control.gateway.allowances import AllowancePolicy
from bough.control.gateway.notify import GatewayNotifier
from bough.control.gateway.quotas import QuotaJudge
from bough.control.gateway.wakes import Wakes
from bough.control.people.operator import ensure_operator_key, ensure_operator_link
from bough.control.platform.creation_limits import CreationLimits
from bough.control.platform.hostnames import Hostnames
from bough.control.platform.key_usage import KeyUsage
from bough.control.platform.measurements import ComputeMeasurements, HistoryMeasurements
from bough.control.platform.rate_limits import AttemptLimits, RateLimiter
from bough.control.platform.shutdown import stop_all_computes
from bough.control.platform.tls_files import TlsFiles
from bough.control.services import Services
from bough.domain.endpoint import EndpointHosts
from bough.engine.local.engine import LocalEngine
from bough.engine.local.isolation import system_users
from bough.engine.port import Engine
from bough.instant import app as instant
from bough.operations.actions import ALL_ACTIONS
from bough.operations.events import Events
from bough.operations.queue import OperationQueue
from bough.operations.runner import OperationRunner
from bough.pages import routes as pages
from bough.store.postgres import PostgresStore
from bough.store.sqlite import SqliteStore
from bough.store.store import Store
from bough.tasks.loop import Loop
from bough.tasks.loops import create_loops
from bough.tasks.sync_hostnames import SyncHostnames

DEFAULT_GATEWAY_PORT = 5432

logger = log.get_logger(component="app")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """The running parts of the platform, for the server in this module and for tests."""

    services: Services
    engine: Engine
    runner: OperationRunner
    loops: tuple[Loop, ...]
    gateway_api: GatewayApiHandlers


def load_operator_key(settings: Settings) -> str:
    """Return the operator's token. The first call creates it."""
    _make_keys_folder(settings)
    keys = Keys(b"")  # generating a token does not need the server's secret
    return load_or_create_secret(settings.keys / "operator", keys.generate().token.encode()).decode().strip()


async def serve(
    settings: Settings,
    *,
    ready: Callable[[], None],
    stopping: asyncio.Future[bool],
    api_listeners: Sequence[int] = (),
) -> None:
    """Run the platform until `stopping` has a result. If that is True, stop the computes too."""
    with open_listeners(settings, api_listeners) as sockets:
        async with assemble_platform(settings) as platform, AsyncExitStack() as stack:
            await stack.enter_async_context(run_in_background(platform.runner.run()))
            for loop in platform.loops:
                await stack.enter_async_context(run_in_background(loop.run()))
            stack.push_async_callback(platform.gateway_api.wakes.close)
            gateway_app = GatewayApiApp(platform.gateway_api)
            await stack.enter_async_context(
                serve_unix_socket(gateway_app, settings.control_socket, _gateway_group(settings))
            )
            await stack.enter_async_context(
                serve_http(create_app(platform.services, [*pages.routes(), *instant.routes()]), *sockets)
            )
            await SyncHostnames(platform.services.store, platform.services.hostnames).run()
            logger.info("ready", home=str(settings.home), store=platform.services.store.name)
            ready()
            stop_computes = await stopping
            await stack.aclose()
            await platform.services.key_usage.flush(platform.services.store)
            if stop_computes:
                await stop_all_computes(platform.services.store, platform.engine, settings.plan)
            logger.info("stopped", stop_computes=stop_computes)


@asynccontextmanager
async def assemble_platform(settings: Settings) -> AsyncIterator[Platform]:
    """Create and open the parts of the platform; nothing runs yet."""
    settings.home.mkdir(parents=True, exist_ok=True)
    _make_keys_folder(settings)
    keys = Keys(load_or_create_secret(settings.keys / "api-keys"))
    store = _create_store(settings)
    await store.open()
    try:
        await ensure_operator_key(store, keys, load_operator_key(settings))
        load_metrics_token(settings)  # created at startup, so that monitoring can be set up
        await ensure_operator_link(store, keys, settings)
        engine = LocalEngine(settings, spare_cu=defaults.MAX_CU)
        await engine.prepare()
        await asyncio.to_thread(_create_tls_files(settings).prepare, clock.now())
        platform = _create_platform(settings, store, engine, keys)
        yield platform
        platform.services.passwords.close()
        await engine.close()
    finally:
        await store.close()


def _create_platform(settings: Settings, store: Store, engine: Engine, keys: Keys) -> Platform:
    events = Events()
    services = _create_services(settings, store, engine, keys, events)
    return Platform(
        services=services,
        engine=engine,
        runner=OperationRunner(
            store,
            engine,
            events,
            ALL_ACTIONS,
            workers=settings.operation_workers,
            urgent_workers=settings.wakes_at_once,
            gateways=GatewayNotifier(settings.gateway_folder, services.activity),
            get_plan=settings.plan,
        ),
        loops=create_loops(services, engine, _create_tls_files(settings)),
        gateway_api=GatewayApiHandlers(
            gateway_access=AccessResolver(store, load_or_create_secret(settings.keys / "mock"), services.allowances),
            wakes=services.wakes,
            activity=services.activity,
        ),
    )


def _create_services(settings: Settings, store: Store, engine: Engine, keys: Keys, events: Events) -> Services:
    queue = OperationQueue(store, events, ALL_ACTIONS, settings.hold_seconds)
    activity = EndpointActivity(store)
    hosts = EndpointHosts(domain=settings.domain, port=settings.gateway_port or DEFAULT_GATEWAY_PORT)
    vault = Vault(load_or_create_secret(settings.keys / "passwords"))
    allowances = AllowancePolicy(settings, vault)
    wakes = Wakes(
        settings,
        store=store,
        engine=engine,
        queue=queue,
        events=events,
        activity=activity,
        allowances=allowances,
    )
    return Services(
        settings=settings,
        store=store,
        queue=queue,
        engine=engine,
        vault=vault,
        keys=keys,
        hosts=hosts,
        hostnames=Hostnames(settings, hosts),
        rate_limiter=RateLimiter(settings),
        attempt_limits=AttemptLimits(),
        creation_limits=CreationLimits(settings),
        wakes=wakes,
        passwords=Passwords(),
        key_usage=KeyUsage(),
        compute_measurements=ComputeMeasurements(),
        history_measurements=HistoryMeasurements(),
        activity=activity,
        allowances=allowances,
        quotas=QuotaJudge(settings, vault),
    )


def _create_store(settings: Settings) -> Store:
    return PostgresStore(settings.store_url) if settings.store_url else SqliteStore(settings.store_file)


def _make_keys_folder(settings: Settings) -> None:
    settings.keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.keys.chmod(0o700)


def _create_tls_files(settings: Settings) -> TlsFiles:
    return TlsFiles(settings, _gateway_group(settings))


def _gateway_group(settings: Settings) -> int | None:
    """Return the group that may access the gateway's files and socket; None if not running as root."""
    return system_users.resolve_socket_users(settings).gateway_gid if is_root() else None
