"""Creates, changes, packs, measures and deletes branches on this machine."""

import asyncio

from bough.domain.catalog_change import CatalogChange, CreateRole, DeleteAllRows
from bough.engine.local.components import EngineComponents
from bough.engine.local.computes import changes, statistics_files, truncation
from bough.engine.local.installs.installs import Install
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.local.volumes.disk_usage import measure_own_bytes
from bough.engine.port import DEFAULT_CONTENTS_QUERY, BranchContents, ContentsQuery, Origin
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId
from bough.postgres.pg_hba import ROLE_PATTERNS_SINCE


class LocalBranchEngine:
    """Implements BranchEngine."""

    def __init__(self, components: EngineComponents) -> None:
        self._resource_locks = components.resource_locks
        self._build_moves = components.build_moves
        self._branch_volumes = components.branch_volumes
        self._check_can_create = components.check_can_create
        self._history = components.history
        self._inspection = components.inspection
        self._install_catalog = components.install_catalog
        self._packer = components.packer
        self._project_users = components.project_users
        self._replicas = components.replicas
        self._running = components.running
        self._sandbox = components.sandbox
        self._temporary = components.temporary
        self._volumes = components.volumes
        self._warm = components.warm

    async def ensure_branch(self, spec: BranchSpec) -> Origin:
        install = await self._install_catalog.require_install(spec.install, spec.project_id)
        # A recovery may take minutes, so it does not hold up the warm pool.
        lock = self._resource_locks.lock_for_request if spec.point.is_head else self._resource_locks.lock
        async with lock(spec.volume_id):
            record = await asyncio.to_thread(self._volumes.folder(spec.volume_id).read_record)
            if record is None or record.is_pending:
                return await self._create_volume(spec, install, is_pending=record is not None)
            if record.source_volume_id is None:
                return await self._history.read_template_origin(spec.volume_id)
            return record.origin

    async def _create_volume(self, spec: BranchSpec, install: Install, *, is_pending: bool) -> Origin:
        await asyncio.to_thread(self._check_can_create)
        if is_pending:
            await self._history.drop_pending(spec.volume_id, spec.project_id)
        source = spec.source_volume_id
        if source is not None and (not spec.point.is_head or await self._history.is_retired(source)):
            return await self._history.create_at_point(spec, source, install)
        if await self._project_users.has_no_user(spec.project_id) and await self._warm.assign(spec, install):
            return await self._history.read_template_origin(spec.volume_id)
        origin = await self._branch_volumes.create(spec, install)
        return origin if source is not None else await self._history.read_template_origin(spec.volume_id)

    async def ensure_absent(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._resource_locks.lock(volume):
            await self._running.check_no_compute(volume)
            await self._history.drop_bases(project, volume)
            await self._replicas.drop_slot(volume)
            await self._volumes.ensure_absent(volume, project)
            await self._history.drop_wal_archive(volume, project)
            await self._project_users.release_if_unused(project)

    async def ensure_packed(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._resource_locks.lock(volume):
            await self._packer.pack(volume)

    async def ensure_unpacked(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._resource_locks.lock_for_request(volume):
            await self._packer.unpack(volume)

    async def apply_change(self, spec: BranchSpec, change: CatalogChange) -> None:
        install = await self._install_catalog.require_install(spec.install, spec.project_id)
        async with self._resource_locks.lock_for_request(spec.volume_id):
            sockets = await self._running.await_volume_sockets(spec.volume_id)
            if sockets is not None:
                await changes.apply_change(sockets, change, install.major)
                if isinstance(change, CreateRole) and install.major < ROLE_PATTERNS_SINCE:
                    folder = self._volumes.folder(spec.volume_id)
                    await changes.add_to_ident_map(change.name, folder, sockets, self._sandbox.socket_users)
                return
            settings = None
            if isinstance(change, DeleteAllRows):
                settings = truncation.TRUNCATION_SETTINGS
                with translate_os_errors():
                    await asyncio.to_thread(statistics_files.delete, self._volumes.folder(spec.volume_id).data)
            install = await asyncio.to_thread(self._build_moves.keep, spec.volume_id, install)
            async with self._temporary.start_on(spec, install, settings) as temporary:
                await changes.apply_change(temporary, change, install.major)

    async def read_branch_contents(
        self, spec: BranchSpec, query: ContentsQuery = DEFAULT_CONTENTS_QUERY
    ) -> BranchContents:
        install = await self._install_catalog.require_install(spec.install, spec.project_id)
        async with self._resource_locks.lock_for_request(spec.volume_id):
            sockets = await self._running.await_volume_sockets(spec.volume_id)
            if sockets is not None:
                return await self._inspection.read_contents_at(sockets, query)
            contents = await self._history.pop_contents(spec.volume_id)
            if contents is not None and contents.is_complete_for(query):
                return contents
            install = await asyncio.to_thread(self._build_moves.keep, spec.volume_id, install)
            async with self._temporary.start_on(spec, install) as temporary:
                return await self._inspection.read_contents_at(temporary, query)

    async def measure_volume(self, volume: VolumeId) -> int | None:
        folder = self._volumes.folder(volume)
        record = await asyncio.to_thread(folder.read_record)
        if record is None:
            return None
        with translate_os_errors():
            return await self._volumes.run_blocking(lambda: measure_own_bytes(folder), record.project_id)
