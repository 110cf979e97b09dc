"""The Postgres builds that volumes run with, compared with those that serve their projects."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bough import clock
from bough.engine.local.computes.runs import ComputeRun, is_temporary
from bough.engine.local.computes.spare_assignment import is_spare
from bough.engine.local.installs.catalog import InstallCatalog
from bough.engine.local.installs.installs import Install
from bough.engine.local.volumes import build_use
from bough.engine.local.volumes.build_use import BuildUse
from bough.engine.local.volumes.volumes import Volumes
from bough.ids import VolumeId


@dataclass(frozen=True, slots=True)
class PutBackUse:
    """A volume that went back to the build before, because the one that serves its project did not start."""

    volume_id: VolumeId
    use: BuildUse
    build: Install


class BuildUses:
    """Blocks: reads files."""

    def __init__(self, volumes: Volumes, catalog: InstallCatalog) -> None:
        self._volumes = volumes
        self._catalog = catalog

    def read(self, volume: VolumeId) -> BuildUse | None:
        return BuildUse.read(self._volumes.folder(volume).path)

    def write(self, volume: VolumeId, use: BuildUse) -> None:
        use.write(self._volumes.folder(volume).path)

    def read_with_former(self, volume: VolumeId) -> tuple[BuildUse | None, Install | None]:
        """Return with it the build that the data was written with last, if it is still here.

        A clone has the data of its source. Of a volume of an earlier version of Bough less is known.
        """
        use = self.read(volume)
        if use is not None:
            return use, self._catalog.find(use.install)
        folder = self._volumes.folder(volume)
        record = folder.read_record()
        if record is None:
            return None, None
        source = self.read(VolumeId(record.source_volume_id)) if record.source_volume_id else None
        checked = build_use.read_checked_install(folder.path)
        return None, self._catalog.find(source.install if source else checked or record.template)

    def record_running(self, runs: Iterable[ComputeRun]) -> None:
        """Record the builds of computes that an earlier version of Bough started."""
        for run in runs:
            folder = self._volumes.folder(run.volume_id)
            if run.pin and _is_of_endpoint(run) and self.read(run.volume_id) is None and folder.path.is_dir():
                self.write(run.volume_id, BuildUse(pin=run.pin, install=run.install, since=clock.now().isoformat()))

    def find_put_back(self, volume: VolumeId) -> PutBackUse | None:
        """Return it if the build that serves the project of the volume did not start on it."""
        use, record = self.read(volume), self._volumes.folder(volume).read_record()
        if use is None or record is None:
            return None
        serving = self._catalog.find_serving(use.pin, record.project_id)
        if serving is None or not use.is_put_back_from(serving.id):
            return None
        return PutBackUse(volume, use, serving)

    def list_put_back(self) -> Iterator[PutBackUse]:
        """Yield the volumes that a build did not start on, as long as this build serves their projects."""
        for path in self._volumes.list_files(build_use.FILE):
            volume = VolumeId(path.parent.name)
            if not is_spare(volume) and (found := self.find_put_back(volume)):
                yield found

    def list_used(self) -> set[str]:
        """Return the builds that volumes could go back to; those of archived branches are not kept."""
        found = set()
        for path in self._volumes.list_files(build_use.FILE):
            use = BuildUse.read(path.parent)
            if use is not None and self._volumes.folder(VolumeId(path.parent.name)).read_archived_state() is None:
                found.add(use.install)
        return found

    def find_pending(self, volume: VolumeId) -> tuple[BuildUse, Install] | None:
        """Return the build that the volume's next start would move it forward to; None if there is none."""
        use, record = self.read(volume), self._volumes.folder(volume).read_record()
        if use is None or record is None or record.is_replica:
            return None
        former, serving = self._catalog.find(use.install), self._catalog.find_serving(use.pin, record.project_id)
        if serving is None or not is_forward(former, serving) or use.is_put_back_from(serving.id):
            return None
        return use, serving


def is_forward(former: Install | None, serving: Install) -> bool:
    """Return whether data that the former build wrote would be opened by a newer or another one for the first time."""
    if former is None:
        return True
    before, after = _version(former), _version(serving)
    return before < after or (before == after and former.flavour is not serving.flavour)


def _is_of_endpoint(run: ComputeRun) -> bool:
    return not (is_spare(run.endpoint_id) or is_temporary(run.endpoint_id))


def _version(install: Install) -> tuple[int, ...]:
    return tuple(int(number) for number in install.version.split("."))
