"""The one place that chooses: which store, which engine, which edges; starts and stops them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bough import clock, log
from bough.access.keys import Keys
from bough.access.metrics_token import metrics_token
from bough.access.passwords import Passwords
from bough.access.vault import Vault, secret_file
from bough.api.app import create_app
from bough.api.internal import Plane, PlaneApp
from bough.api.serving import listening, serving, serving_locally
from bough.beside import beside
from bough.config import Settings, running_as_root
from bough.control import defaults
from bough.control.activity import Activity
from bough.control.allowances import Allowances
from bough.control.attempts import Attempts
from bough.control.creation_limits import CreationLimits
from bough.control.entrance import Entrance
from bough.control.figures import Figures
from bough.control.gateway_doors import GatewayDoors
from bough.control.history_figures import HistoryFigures
from bough.control.key_use import KeyUse
from bough.control.limits import Limiter
from bough.control.names import Names
from bough.control.operator import ensure_operator_key
from bough.control.parts import Parts
from bough.control.resting import rest
from bough.control.tls_files import TlsFiles
from bough.control.wakes import Wakes
from bough.control.welcoming import ensure_welcome
from bough.domain.endpoint import Hosts
from bough.engine.local.engine import LocalEngine
from bough.engine.local.isolation import accounts
from bough.engine.port import Engine
from bough.instant import edge as instant
from bough.operations.actions import EVERY
from bough.operations.events import Events
from bough.operations.queue import Queue
from bough.operations.runner import Runner
from bough.pages import routes as pages
from bough.store.postgres import PostgresStore
from bough.store.sqlite import SqliteStore
from bough.store.store import Store
from bough.tasks.archive_branches import ArchiveBranches
from bough.tasks.count_active import CountActive
from bough.tasks.expire_branches import ExpireBranches
from bough.tasks.expire_snapshots import ExpireSnapshots
from bough.tasks.expire_unclaimed import ExpireUnclaimed
from bough.tasks.forget_answers import ForgetAnswers
from bough.tasks.forget_audit import ForgetAudit
from bough.tasks.forget_logs import ForgetLogs
from bough.tasks.forget_people import ForgetPeople
from bough.tasks.forget_workers import ForgetWorkers
from bough.tasks.history_alarm import HistoryAlarm
from bough.tasks.keep_computes import KeepComputes
from bough.tasks.keep_history import KeepHistory
from bough.tasks.keep_names import KeepNames
from bough.tasks.keep_replicas import KeepReplicas
from bough.tasks.keep_storage import KeepStorage
from bough.tasks.keep_transfers import KeepTransfers
from bough.tasks.loop import Loop
from bough.tasks.measure_branches import MeasureBranches
from bough.tasks.prepare_instant import PrepareInstant
from bough.tasks.purge_deleted import PurgeDeleted
from bough.tasks.read_contents import ReadContents
from bough.tasks.renew_certificates import RenewCertificates
from bough.tasks.retire_volumes import RetireVolumes
from bough.tasks.rotate_logs import RotateLogs
from bough.tasks.scale_computes import ScaleComputes
from bough.tasks.send_mail import SendMail
from bough.tasks.suspend_idle import SuspendIdle
from bough.tasks.take_snapshots import TakeSnapshots
from bough.tasks.write_key_use import WriteKeyUse

DEFAULT_GATEWAY_PORT = 5432

logger = log.get(room="app")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """Everything that runs, for whoever drives it: the server here, a test elsewhere."""

    parts: Parts
    runner: Runner
    loops: tuple[Loop, ...]
    plane: Plane


def operator_key(settings: Settings) -> str:
    """The operator's token; made at the first call."""
    _make_keys_folder(settings)
    keys = Keys(b"")  # a token is made without the server's secret
    return secret_file(settings.keys / "operator", keys.new().token.encode()).decode().strip()


async def serve(
    settings: Settings,
    *,
    ready: Callable[[], None],
    stopping: asyncio.Future[bool],
    api_listeners: Sequence[int] = (),
) -> None:
    """Run the platform until `stopping` has a result; True there means: stop the computes too."""
    with listening(settings, api_listeners) as sockets:
        async with assembled(settings) as platform, AsyncExitStack() as stack:
            await stack.enter_async_context(beside(platform.runner.run()))
            for loop in platform.loops:
                await stack.enter_async_context(beside(loop.run()))
            stack.push_async_callback(platform.plane.wakes.close)
            plane = PlaneApp(platform.plane)
            await stack.enter_async_context(serving_locally(plane, settings.plane, _gateway_group(settings)))
            await stack.enter_async_context(
                serving(create_app(platform.parts, [*pages.routes(), *instant.routes()]), *sockets)
            )
            await KeepNames(platform.parts.store, platform.parts.names).run()
            logger.info("ready", home=str(settings.home), store=platform.parts.store.name)
            ready()
            computes_too = await stopping
            await stack.aclose()
            await platform.parts.key_use.write(platform.parts.store)
            if computes_too:
                await rest(platform.parts.store, platform.parts.engine, settings.plan)
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
        metrics_token(settings)  # made now, for whoever sets up monitoring
        await ensure_welcome(store, keys, settings)
        engine = LocalEngine(settings, spare_cu=defaults.MAX_CU)
        await engine.prepare()
        await asyncio.to_thread(_tls_files(settings).prepare, clock.now())
        platform = _platform(settings, store, engine, keys)
        yield platform
        platform.parts.passwords.close()
        await engine.close()
    finally:
        await store.close()


def _platform(settings: Settings, store: Store, engine: Engine, keys: Keys) -> Platform:
    events = Events()
    queue = Queue(store, events, EVERY, settings.hold_seconds)
    key_use = KeyUse()
    figures = Figures()
    history_figures = HistoryFigures()
    activity = Activity(store)
    hosts = Hosts(domain=settings.domain, port=settings.gateway_port or DEFAULT_GATEWAY_PORT)
    names = Names(settings, hosts)
    vault = Vault(secret_file(settings.keys / "passwords"))
    allowances = Allowances(settings, vault)
    wakes = Wakes(
        settings,
        store=store,
        engine=engine,
        queue=queue,
        events=events,
        activity=activity,
        allowances=allowances,
    )
    parts = Parts(
        settings=settings,
        store=store,
        queue=queue,
        engine=engine,
        vault=vault,
        keys=keys,
        hosts=hosts,
        names=names,
        limiter=Limiter(settings),
        attempts=Attempts(),
        creation_limits=CreationLimits(settings),
        wakes=wakes,
        passwords=Passwords(),
        key_use=key_use,
        figures=figures,
        history_figures=history_figures,
        activity=activity,
    )
    tasks = (
        KeepComputes(store, engine, queue, activity),
        PurgeDeleted(store, queue),
        ExpireBranches(settings, store, queue, activity),
        ExpireSnapshots(store, queue),
        TakeSnapshots(settings, store, engine, queue),
        ExpireUnclaimed(store, queue, activity),
        ArchiveBranches(settings, store, engine, queue),
        WriteKeyUse(store, key_use),
        ForgetAnswers(store),
        ForgetWorkers(store),
        ForgetPeople(store),
        ForgetAudit(settings, store),
        RotateLogs(settings),
        ForgetLogs(settings, store, engine),
        RenewCertificates(_tls_files(settings)),
        KeepNames(store, names),
    )
    quick_tasks = (
        CountActive(store, engine),
        KeepTransfers(settings, store=store, queue=queue, activity=activity, allowances=allowances),
    )
    # Each by itself: as long as a compute that does not answer is waited for, its task goes on with the others.
    contents = ReadContents(store, engine, queue, activity, settings.plan)
    idle = SuspendIdle(settings, store, engine, queue, activity)
    storage = KeepStorage(settings, store=store, engine=engine, queue=queue, activity=activity, allowances=allowances)
    return Platform(
        parts=parts,
        runner=Runner(
            store,
            engine,
            events,
            EVERY,
            workers=settings.operation_workers,
            urgent_workers=settings.wakes_at_once,
            doors=GatewayDoors(settings.gateway_folder, activity),
            plans=settings.plan,
        ),
        loops=(
            Loop(store, tasks),
            Loop(store, quick_tasks, "quick tasks"),
            Loop(store, (contents,), "contents"),
            Loop(store, (idle,), "idle computes"),
            Loop(store, (storage,), "storage"),
            Loop(store, (KeepReplicas(store, engine, queue, activity),), "replicas"),
            Loop(store, (KeepHistory(store, engine, HistoryAlarm(settings, history_figures)),), "history"),
            Loop(store, (RetireVolumes(store, engine),), "retired volumes"),
            Loop(store, (ScaleComputes(store, engine, activity),), "scaling"),
            Loop(store, (MeasureBranches(store, engine, figures, activity),), "measures"),
            Loop(store, (SendMail(settings, store, parts.vault),), "mail"),
            Loop(store, (PrepareInstant(parts),), "instant databases"),
        ),
        plane=Plane(
            entrance=Entrance(store, secret_file(settings.keys / "mock"), allowances),
            wakes=wakes,
            activity=activity,
        ),
    )


def _store(settings: Settings) -> Store:
    return PostgresStore(settings.store_url) if settings.store_url else SqliteStore(settings.store_file)


def _make_keys_folder(settings: Settings) -> None:
    settings.keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.keys.chmod(0o700)


def _tls_files(settings: Settings) -> TlsFiles:
    return TlsFiles(settings, _gateway_group(settings))


def _gateway_group(settings: Settings) -> int | None:
    """Whose members may reach what the gateway needs; nobody but ourselves when we are not root."""
    return accounts.entrants(settings).gateway_gid if running_as_root() else None
