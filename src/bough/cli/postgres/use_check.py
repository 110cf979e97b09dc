"""Checks that no change of builds takes away an extension that a database uses, and says where it is used."""

import asyncio
from collections.abc import Mapping, Sequence

from bough.cli.storage.volume_uses import read_volume_uses
from bough.config import Settings
from bough.engine.local import extension_uses
from bough.engine.local.engine import LocalEngine
from bough.engine.local.extension_uses import ExtensionsInUse, ExtensionUse, UseCheck
from bough.engine.local.installs.update import BuildChange, Check
from bough.errors import PreconditionFailed
from bough.ids import VolumeId
from bough.store.volume_uses import VolumeUse

_MAX_NAMED = 20


def make(settings: Settings, *, ignores_unknown: bool) -> Check:
    check = UseCheck(settings=settings, ignores_unknown=ignores_unknown)

    def check_now(changes: Sequence[BuildChange]) -> None:
        if any(extension_uses.find_lost(change) or change.is_older for change in changes):
            asyncio.run(LocalEngine(settings).check_all_extensions())
        try:
            check(changes)
        except ExtensionsInUse as error:
            raise PreconditionFailed(_explain(error.uses, read_volume_uses(settings))) from None

    return check_now


def _explain(uses: Sequence[ExtensionUse], volumes: Mapping[VolumeId, VolumeUse]) -> str:
    sentences = []
    named = [f"{each.name} {', '.join(each.versions)} in {_describe(each, volumes)}" for each in uses if each.name]
    unknown = [_describe(each, volumes) for each in uses if not each.name]
    if named:
        sentences.append(
            f"Nothing was changed, because the other build lacks extensions that are in use: {_join(named)}. Run DROP "
            "EXTENSION there, or delete these branches and snapshots, and repeat this."
        )
    if unknown:
        sentences.append(
            f"It is not known which extensions these use: {_join(unknown)}. Start their endpoints once to find out, "
            "or repeat this with --ignore-unknown if you know that they use none that is missing."
        )
    return " ".join(sentences)


def _describe(use: ExtensionUse, volumes: Mapping[VolumeId, VolumeUse]) -> str:
    found = volumes.get(use.volume_id)
    if found is None:  # a volume that a restore replaced, or the store cannot be read
        return f"a volume of the project {use.project_id}"
    if found.snapshot_name is not None:
        return f"the snapshot {found.snapshot_name} of the project {use.project_id}"
    return f"the branch {found.branch_name} ({found.branch_id}) of the project {use.project_id}"


def _join(names: Sequence[str]) -> str:
    more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
    return "; ".join([*names[:_MAX_NAMED], *more])
