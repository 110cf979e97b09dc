"""Remove replication slots with output plugins that are not allowed, before a server starts.

A version of Bough that did not check plugins may have created them, or a tenant's code. Older releases of Postgres load
any library that the file of a slot names.
"""

from pathlib import Path

from bough import log
from bough.domain.output_plugins import OUTPUT_PLUGINS
from bough.engine.local.tenant_files import entry_exists, open_folder, read_file, rename, scan_entries
from bough.postgres import replication, slot_file

_MAX_SLOTS = 10_000  # entries of the folder; a tenant may have a hundred slots
_ALLOWED = frozenset(name.encode() for name in OUTPUT_PLUGINS)

logger = log.get_logger(component="engine")


def remove_foreign_slots(data: Path) -> None:
    """Raise a TenantFileError if the files cannot be those of slots."""
    if not entry_exists(replication.SLOTS_FOLDER, data):
        return
    with open_folder(data) as folder, open_folder(replication.SLOTS_FOLDER, folder) as slots:
        for entry in list(scan_entries(slots, _MAX_SLOTS)):
            if entry.is_dir(follow_symlinks=False) and not entry.name.endswith(slot_file.DELETED_SUFFIX):
                _remove_if_foreign(entry.name, slots)


def _remove_if_foreign(name: str, slots: int) -> None:
    path = f"{name}/{slot_file.STATE_FILE}"
    if not entry_exists(path, slots):
        return
    plugin = slot_file.parse_plugin(read_file(path, slots, slot_file.MAX_BYTES))
    if plugin and plugin not in _ALLOWED:
        rename(name, _choose_free_name(slots), slots)
        logger.warning("replication_slot_removed", slot=name[:64], plugin=plugin.decode(errors="replace"))


def _choose_free_name(slots: int) -> str:
    names = (f"removed-{number}{slot_file.DELETED_SUFFIX}" for number in range(_MAX_SLOTS))
    return next(each for each in names if not entry_exists(each, slots))
