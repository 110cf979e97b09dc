"""Which volumes use which extensions, so that no build is selected that lacks what a database needs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bough.config import Settings
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.folders import Folders
from bough.engine.local.installs import offered_extensions, selection
from bough.engine.local.installs.update import BuildChange
from bough.engine.local.volumes.extension_record import ExtensionRecord
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import ProjectId, VolumeId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionUse:
    """An extension in the databases of a volume; no name: it is unknown which it has."""

    project_id: ProjectId
    volume_id: VolumeId
    name: str = ""
    versions: tuple[str, ...] = ()


class ExtensionsInUse(EngineError):
    """A build lacks extensions that databases have, or may have."""

    def __init__(self, uses: Sequence[ExtensionUse]) -> None:
        projects = ", ".join(sorted({each.project_id for each in uses}))
        super().__init__(f"The other build lacks extensions that are in use in {projects}.", transient=False)
        self.uses = tuple(uses)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCheck:
    """Checks changes of builds. `ignores_unknown`: the operator knows what volumes without a complete record have."""

    settings: Settings
    ignores_unknown: bool = False

    def __call__(self, changes: Sequence[BuildChange]) -> None:
        folders = Folders(self.settings)
        folders.check_storage()
        usages = list(_list_usages(Volumes(folders.volumes))) if folders.volumes.is_dir() else []  # never started
        with_own = {project for key in selection.read(self.settings.home) if (project := selection.split_key(key)[1])}
        uses = {
            (use.volume_id, use.name): use
            for change in changes
            for usage in usages
            if usage.is_concerned(change, with_own)
            for use in usage.list_conflicts(change)
            if use.name or not self.ignores_unknown
        }
        if uses:
            raise ExtensionsInUse([*uses.values()])


@dataclass(frozen=True, slots=True)
class _Usage:
    """A volume, and what is recorded of it."""

    volume: VolumeId
    record: VolumeRecord
    extensions: ExtensionRecord

    def is_concerned(self, change: BuildChange, with_own: set[ProjectId]) -> bool:
        """Return whether its computes start with the other build. Its major version tells the pin."""
        if self.record.major != change.after.major:
            return False
        project = self.record.project_id
        return project == change.project_id or (change.project_id is None and project not in with_own)

    def list_conflicts(self, change: BuildChange) -> Iterator[ExtensionUse]:
        project, lost = self.record.project_id, find_lost(change)
        for name, versions in self.extensions.versions.items():
            if name in lost or _is_newer(name, versions, change):
                yield ExtensionUse(project_id=project, volume_id=self.volume, name=name, versions=versions)
        if lost and not self.extensions.is_complete:
            yield ExtensionUse(project_id=project, volume_id=self.volume)


def _list_usages(volumes: Volumes) -> Iterator[_Usage]:
    """Omit replicas, which have what their primary has, and bases, which no server opens."""
    for volume in sorted(volumes.list_volumes_and_bases()):
        folder = volumes.folder(volume)
        record = folder.read_record()
        if record is not None and not is_spare(volume) and not record.is_replica and record.base_of is None:
            yield _Usage(volume, record, ExtensionRecord.read(folder.path) or ExtensionRecord(is_complete=False))


def find_lost(change: BuildChange) -> set[str]:
    """Return the extensions that the build before has and the other lacks."""
    if change.before is None:
        return set()
    before, after = offered_extensions.read(change.before), offered_extensions.read(change.after)
    return {name for name, each in before.items() if each.control.is_creatable} - after.keys()


def _is_newer(name: str, versions: Iterable[str], change: BuildChange) -> bool:
    """Return whether an older build does not know a version that is in use."""
    if change.before is None or not change.is_older:
        return False
    before = offered_extensions.read(change.before).get(name)
    after = offered_extensions.read(change.after).get(name)
    return bool(before and after and {*versions} & (before.versions - after.versions))
