"""The port to the Postgres builds that projects are pinned to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bough.ids import EndpointId, VolumeId


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
    outdated: Mapping[EndpointId, str] = field(default_factory=dict)  # computes that still run an older build


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexToRebuild:
    """An index that may be in the wrong order, because the build of its compute sorts text differently."""

    database: str
    index: str  # with its schema
    statement: str  # which rebuilds it


class BuildInspection(Protocol):
    """Read which builds serve projects. Nothing here changes anything."""

    async def list_builds(self) -> tuple[Build, ...]:
        """Return the Postgres builds that serve the pins of projects."""

    async def list_indexes_to_rebuild(self) -> Mapping[VolumeId, tuple[IndexToRebuild, ...]]:
        """Return the indexes that were found when the computes of the volumes last ran."""


class BuildsEngine(BuildInspection, Protocol):
    """Follow the builds that the operator selected."""

    async def follow_builds(self) -> str:
        """Use builds that were selected since the last call. Return what changed, in one sentence, or nothing."""

    async def check_collations(self) -> None:
        """Look for indexes to rebuild in computes that run on another build than when they were last looked at."""
