"""Which driver makes the volumes of a home."""

from bough.config import Settings
from bough.engine.local.volumes.plain import PlainVolumes
from bough.engine.local.volumes.port import Volumes
from bough.errors import SettingRefused


def choose(settings: Settings) -> Volumes:
    if settings.storage in ("auto", "plain"):
        return PlainVolumes(settings.home / "volumes")
    raise SettingRefused(
        f"The storage driver {settings.storage!r} is not available in this version: use --storage auto or plain."
    )
