"""The port to the Postgres builds that projects are pinned to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from bough.domain.maintenance import RestartNeed
from bough.ids import EndpointId, ProjectId, VolumeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """The build that serves a pin: what the computes of its projects start with."""

    pin: str  # flavour and major version, such as debian-17
    major: int
    id: str
    version: str  # such as 17.12
    previous_id: str | None = None  # which a rollback returns to
    previous_version: str | None = None
    is_default: bool = False  # new projects of the major version get this pin
    outdated: Mapping[EndpointId, str] = field(default_factory=dict)  # computes that still run another build
    project_builds: Mapping[ProjectId, str] = field(default_factory=dict)  # ids; of projects with one of their own
    problem: str | None = None  # why the selected build cannot be used, so that this one serves instead


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBackBuild:
    """A volume whose compute did not start with the build of its project, so that it runs with the one before."""

    volume_id: VolumeId
    build_id: str  # which did not start
    version: str
    kept_version: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexToRebuild:
    """An index that may be in the wrong order, because the build of its compute sorts text differently."""

    database: str
    index: str  # with its schema
    statement: str  # which rebuilds it


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedExtension:
    """An extension that a build contains."""

    name: str
    default_version: str
    summary: str
    requires: tuple[str, ...]  # other extensions
    is_default: bool  # in every build; otherwise the operator added it
    is_allowed: bool  # whether the roles of a project can create it
    preload_library: str | None  # without which it cannot be created, or does nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedExtensions:
    """What the computes of a project can create from their next start."""

    build_id: str
    version: str  # of Postgres
    extensions: tuple[OfferedExtension, ...]
    libraries: frozenset[str]  # those that the build contains and that may be preloaded
    preloaded: Mapping[EndpointId, tuple[str, ...]]  # libraries of the project's running computes


class BuildInspection(Protocol):
    """Read which builds serve projects. Nothing here changes anything."""

    async def list_builds(self) -> tuple[Build, ...]:
        """Return the Postgres builds that serve the pins of projects."""

    async def list_restart_needs(self, project: ProjectId | None = None) -> tuple[RestartNeed, ...]:
        """Return the running computes, of all projects or of one, that need a restart: for another build, or for
        settings that wait for it.
        """

    async def find_put_back(self, volume: VolumeId) -> PutBackBuild | None:
        """Return the build of the project that did not start on the volume, so that the one before is used."""

    async def list_put_back(self) -> tuple[PutBackBuild, ...]:
        """Return every volume that stays on an earlier build. Reads a file of each volume."""

    async def list_indexes_to_rebuild(self) -> Mapping[VolumeId, tuple[IndexToRebuild, ...]]:
        """Return the indexes that were found when the computes of the volumes last ran."""

    async def list_offered_extensions(self, pin: str, project: ProjectId | None = None) -> OfferedExtensions:
        """Return the extensions of the build that serves a pin, or a project with this pin."""


class BuildsEngine(BuildInspection, Protocol):
    """Follow the builds that the operator selected."""

    async def follow_builds(self) -> str:
        """Use builds that were selected since the last call. Return what changed, in one sentence, or nothing."""

    async def check_collations(self) -> None:
        """Look for indexes to rebuild in computes that run on another build than when they were last looked at."""

    async def check_extensions(self) -> None:
        """Record which extensions the databases of running computes have."""
