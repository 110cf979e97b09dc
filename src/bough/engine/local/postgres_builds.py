"""Follow the operator's selection of Postgres builds: templates, warm pool, and the removal of what nobody uses."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from bough import log
from bough.config import Settings
from bough.domain.maintenance import RestartNeed, RestartReason
from bough.engine.local.components import EngineComponents
from bough.engine.local.computes.runs import ComputeRun, is_temporary
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.installs import changelog, fallbacks, offered_extensions, removal, selection
from bough.engine.local.installs.installs import Install
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.local.threads import run_shielded
from bough.engine.local.warm.spares import SpareConfig
from bough.engine.port import Build, EngineError, OfferedExtension, OfferedExtensions, PutBackBuild
from bough.engine.spec import build_default_settings
from bough.ids import EndpointId, ProjectId, VolumeId

_DEFAULT_CU = 0.25

logger = log.get_logger(component="engine")


class PostgresBuilds:
    def __init__(self, components: EngineComponents, settings: Settings, spare_cu: float | None) -> None:
        self._parts = components
        self._settings = settings
        self._spare_cu = spare_cu or _DEFAULT_CU
        self._fixes: dict[tuple[str, str], bool] = {}  # by the ids of two builds

    async def start(self, progress: Progress = ignore_progress) -> None:
        """Ensure templates and the warm pool for the selected builds."""
        catalog, majors = self._parts.install_catalog, self._settings.postgres_versions
        for install in catalog.require_majors(majors):
            await self._ensure_template(install, progress)
        await self._parts.warm.start(self._spare_config(catalog.require_majors(majors)[0]))

    async def _ensure_template(self, install: Install, progress: Progress) -> None:
        """A build that cannot even create a template is not used, if there is one before it."""
        catalog = self._parts.install_catalog
        try:
            await run_shielded(partial(self._parts.templates.ensure, install, progress))
        except EngineError as error:
            if error.transient or not catalog.set_aside(install.id, error.public_message):
                raise
            logger.error("build_set_aside", build=install.id, reason=error.public_message)
            for former in catalog.require_majors([install.major]):
                await run_shielded(partial(self._parts.templates.ensure, former, progress))

    async def follow(self) -> str:
        catalog = self._parts.install_catalog
        if not catalog.has_new_selection():
            return ""
        with translate_os_errors():
            before = self._list_ids()
            await catalog.refresh()
            await self._parts.warm.close()
            await self.start()
            await run_shielded(self._remove_unused)
        changed = {install for key, install in self._list_ids().items() if before.get(key) != install}
        return f"computes now start with {', '.join(sorted(changed))}" if changed else ""

    async def list_offered_extensions(self, pin: str, project: ProjectId | None) -> OfferedExtensions:
        install = await self._parts.install_catalog.require_install(pin, project)
        found = await asyncio.to_thread(offered_extensions.read, install)
        runs = await asyncio.to_thread(self._parts.runs.list_all) if project else []
        return OfferedExtensions(
            build_id=install.id,
            version=install.version,
            extensions=tuple(
                OfferedExtension(
                    name=each.name,
                    default_version=each.control.default_version,
                    summary=each.summary,
                    requires=each.control.requires,
                    is_default=each.is_default or not install.is_extended,
                    is_allowed=each.control.is_creatable,
                    preload_library=each.preload_library,
                )
                for each in found.values()
            ),
            libraries=frozenset(await asyncio.to_thread(offered_extensions.list_preloadable, install)),
            preloaded={
                run.endpoint_id: tuple(name for name in (run.preloaded or "").split(",") if name)
                for run in runs
                if run.project_id == project and not is_temporary(run.endpoint_id)
            },
        )

    async def list_restart_needs(self, project: ProjectId | None = None) -> tuple[RestartNeed, ...]:
        runs = [run for run in await self._list_runs(project) if not _is_internal(run)]
        found = await asyncio.to_thread(lambda: [need for run in runs if (need := self._find_need(run))])
        return tuple([await self._with_base(need, volume) for need, volume in found])

    async def _list_runs(self, project: ProjectId | None) -> list[ComputeRun]:
        """Return the runs of live computes; of one project, without looking at those of others."""
        if project is None:
            return await self._parts.running.list_runs()
        runs = [run for run in await asyncio.to_thread(self._parts.runs.list_all) if run.project_id == project]
        return [run for run in runs if await self._parts.running.find_sockets(run.endpoint_id) is not None]

    async def find_put_back(self, volume: VolumeId) -> PutBackBuild | None:
        return await asyncio.to_thread(self._parts.build_moves.find_put_back, volume)

    async def list_put_back(self) -> tuple[PutBackBuild, ...]:
        uses, moves = self._parts.build_uses, self._parts.build_moves
        return await asyncio.to_thread(lambda: tuple(moves.describe(each) for each in uses.list_put_back()))

    def _find_need(self, run: ComputeRun) -> tuple[RestartNeed, VolumeId] | None:
        new = self._find_install(run)
        is_outdated = new is not None and new.id != run.install
        reasons = [RestartReason.BUILD] if is_outdated else []
        settings = tuple(name for name in (run.waiting or "").split(",") if name)
        if settings:
            reasons.append(RestartReason.SETTINGS)
        if not reasons:
            return None
        old = self._parts.install_catalog.find(run.install)
        need = RestartNeed(
            project_id=run.project_id,
            endpoint_id=run.endpoint_id,
            reasons=tuple(reasons),
            from_version=old.version if old else run.install,
            to_version=new.version if new else (old.version if old else run.install),
            settings=settings,
            fixes_vulnerabilities=new is not None and old is not None and self._fixes_vulnerabilities(old, new),
        )
        return need, run.volume_id

    def _fixes_vulnerabilities(self, old: Install, new: Install) -> bool:
        """Reading the list of changes takes long."""
        key = (old.id, new.id)
        if key not in self._fixes:
            self._fixes[key] = bool(changelog.list_fixed_cves(old, new))
        return self._fixes[key]

    async def _with_base(self, need: RestartNeed, volume: VolumeId) -> RestartNeed:
        """Only a move to another build waits for a base."""
        if need.reasons != (RestartReason.BUILD,) or await self._parts.history.has_return_base(volume):
            return need
        return replace(need, is_waiting_for_base=True)

    def _list_ids(self) -> dict[str, str]:
        """Map pins, and projects with an install of their own, to install ids."""
        catalog = self._parts.install_catalog
        serving = {**catalog.list_serving(), **catalog.list_project_installs()}
        return {key: install.id for key, install in serving.items()}

    async def list_builds(self) -> tuple[Build, ...]:
        runs = await self._parts.running.list_runs()
        catalog = self._parts.install_catalog
        defaults = {install.pin for install in catalog.select_preferred().values()}
        serving = sorted(catalog.list_serving().items())
        return await asyncio.to_thread(
            lambda: tuple(self._describe(pin, install, runs, is_default=pin in defaults) for pin, install in serving)
        )

    def list_warnings(self) -> tuple[str, ...]:
        return tuple(text for install in self._list_required() if (text := fallbacks.describe(install)))

    def explain_vulnerable(self) -> dict[str, str]:
        required = self._list_required()
        others = {pin: each for pin, each in self._parts.install_catalog.list_serving().items() if each not in required}
        explained = {pin: fallbacks.explain_vulnerable(pin, install) for pin, install in others.items()}
        return {pin: text for pin, text in explained.items() if text}

    def _list_required(self) -> list[Install]:
        preferred = self._parts.install_catalog.select_preferred()
        return [preferred[major] for major in self._settings.postgres_versions if major in preferred]

    def _describe(self, pin: str, install: Install, runs: Iterable[ComputeRun], *, is_default: bool) -> Build:
        catalog = self._parts.install_catalog
        entry = catalog.selection.get(pin)
        previous = catalog.find(entry.previous) if entry else None
        return Build(
            pin=pin,
            major=install.major,
            id=install.id,
            version=install.version,
            previous_id=previous.id if previous else None,
            previous_version=previous.version if previous else None,
            is_default=is_default,
            problem=catalog.explain_set_aside(pin),
            outdated={
                EndpointId(run.endpoint_id): self._find_version(run.install)
                for run in runs
                if run.pin == pin and not is_spare(run.endpoint_id) and run.install != self._find_id(run)
            },
            project_builds={
                project: each.id
                for key, each in catalog.list_project_installs().items()
                for own_pin, project in [selection.split_key(key)]
                if own_pin == pin and project is not None
            },
        )

    def _find_id(self, run: ComputeRun) -> str | None:
        """Return the install that the compute would start with."""
        install = self._find_install(run)
        return install.id if install else None

    def _find_install(self, run: ComputeRun) -> Install | None:
        """A build that did not start on its volume is not tried again."""
        install = self._parts.install_catalog.find_serving(run.pin, run.project_id) if run.pin else None
        use = self._parts.build_uses.read(run.volume_id) if install and install.id != run.install else None
        if install and use and use.is_put_back_from(install.id):
            return self._parts.install_catalog.find(run.install)
        return install

    def _find_version(self, install_id: str) -> str:
        install = self._parts.install_catalog.find(install_id)
        return install.version if install else install_id

    def _spare_config(self, install: Install) -> SpareConfig:
        return SpareConfig(install=install, settings=build_default_settings(self._spare_cu), cu=self._spare_cu)

    def _remove_unused(self) -> None:
        """Remove templates that no volume was cloned from, and installs that no home uses."""
        catalog = self._parts.install_catalog
        selected = {name for entry in catalog.selection.values() for name in (entry.current, entry.previous)}
        used = [each for name in selected | set(self._list_ids().values()) if (each := catalog.find(name))]
        unused = self._parts.templates.list_names() - selected - {each.template_name for each in used}
        if unused:
            for name in unused - self._parts.history.list_used_templates():
                self._parts.templates.remove(name)
        self._record_home()
        removal.remove_unused(self._settings.cache)

    async def record_use(self) -> None:
        """Keep other homes from removing the installs that this one uses."""
        await asyncio.to_thread(self._record_home)

    def _record_home(self) -> None:
        selected, used = self._parts.install_catalog.selection, self._parts.build_uses.list_used()
        removal.record_home(self._settings.cache, self._settings.home, selected, used)


def _is_internal(run: ComputeRun) -> bool:
    return is_spare(run.endpoint_id) or is_temporary(run.endpoint_id)
