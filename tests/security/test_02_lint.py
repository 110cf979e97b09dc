"""Files in tenants' folders are opened by one helper: whatever opens, stats, lists or removes a file by its name in
another place has to say here why no tenant can have a hand in it.
"""

import pytest

from security import raw_calls
from security.raw_calls import RawCall

# The helper, and what is made of it for speed: each looks names up in open folders and follows no link.
PRIMITIVES = {
    "engine/local/tenant_files.py": "the helper",
    "engine/local/tenant_trees.py": "removes trees by open folders",
}

# Modules and packages that know no tenant's folder at all.
OURS = {
    "engine/local/installs/": "builds of Postgres in the cache, which is ours",
    "engine/local/isolation/accounts.py": "the machine's accounts",
    "engine/local/isolation/cgroups.py": "control groups: files of the kernel",
    "engine/local/isolation/groups.py": "control groups: files of the kernel",
    "engine/local/isolation/hierarchies.py": "control groups: files of the kernel",
    "engine/local/isolation/mount_namespace.py": "the home, public folders and the kernel's list of mounts",
    "engine/local/isolation/uids.py": "links in the home's folder uids (0700) and in /run/bough/uids (0700)",
    "engine/local/images/allocating.py": "the image's file, in a folder of the operator",
    "engine/local/images/image_making.py": "the image's file and the home itself",
    "engine/local/images/mounts.py": "/proc and /sys",
    "engine/local/folder_index.py": "the home's folders run and volumes: their names are ours",
    "engine/local/volumes/names.py": "the folder of volumes: its names are ours",
    "engine/local/folders.py": "the home and the folders directly in it",
    "engine/local/space.py": "free space of file systems",
    "engine/local/template.py": "templates: made by initdb in a folder of ours, before any tenant is there",
    "engine/local/computes/runs.py": "the home's folder run (0700)",
    "engine/local/computes/vitals.py": "/proc: the kernel's own figures, bounded by it",
    "engine/local/warm/pool.py": "/proc/meminfo",
    "tasks/forget_logs.py": "the home's folder of logs (0700); a tenant only writes to its log's descriptor",
    "tasks/rotate_logs.py": "the same",
    "tasks/suspend_idle.py": "a row, not a file",
    "control/": "keys, certificates, notes and sockets of the platform; control knows no volume",
    "api/": "the listener's socket and rows",
    "pages/": "files of the package",
    "app.py": "the home and its keys",
    "cli/get_db/": "runs as the developer, in the developer's own folder",
    "cli/admin/background.py": "the platform's log",
    "cli/admin/child.py": "the platform's log",
    "cli/admin/config.py": "the settings' file in the home",
    "cli/admin/folders.py": "the home and the folders above it",
    "cli/admin/homes.py": "the home",
    "cli/admin/leftovers.py": "the home's folder run (0700)",
    "cli/admin/listeners.py": "sockets of the gateway",
    "cli/admin/lock.py": "the home's lock file",
    "cli/admin/machine.py": "accounts and /proc",
    "cli/admin/memory_limits.py": "/proc of our own children",
    "cli/admin/ports.py": "a file in the home",
    "cli/admin/socket_table.py": "/proc/net: the kernel's own words",
    "cli/admin/state.py": "a file in the home",
    "cli/admin/watch.py": "certificates of the platform",
    "cli/admin/welcome.py": "keys of the platform",
    "cli/admin/storage/names.py": "the store's file",
    "cli/admin/storage/refusals.py": "the home, and names of volumes in a folder of ours",
    "cli/admin/storage/status.py": "the image's file, and the folder of volumes itself",
}

_NAMES_OF_OURS = "names in a folder that only we can write"
_RECORD = "a file of ours in the volume's folder, which the tenant can pass and cannot write"
_SOCKETS = "the folder of sockets is ours; a name in it is looked at and not followed"
_LOG = "the folder of logs is 0700; the tenant has no more than a descriptor that appends"
_OPEN_FOLDER = "looked up in an open folder, no link is followed"

# In modules that deal with tenants' folders: function by function.
ALLOWED: dict[str, dict[str, str]] = {
    "engine/local/durable.py": {
        "write_atomically": "for folders of ours; what is written into a tenant's goes by tenant_files.write_file",
        "publish": _NAMES_OF_OURS,
        "exclusive": "lock files in folders of ours",
        "_opened": "folders whose own names are ours",
    },
    "engine/local/owners.py": {"_owners": "data folders and archives: their own names are in folders of ours"},
    "engine/local/packing.py": {
        "Packing._packed": _RECORD,
        "Packing._drop_data": _NAMES_OF_OURS,
        "Packing._unpack": _NAMES_OF_OURS,
        "_drop_pack": _RECORD,
    },
    "engine/local/computes/computes.py": {"_is_same": "names in the folder of sockets, which is ours"},
    "engine/local/computes/database_changes.py": {"_rename": "of a database, by SQL"},
    "engine/local/computes/handover.py": {
        "Handover.give_volume": _NAMES_OF_OURS,
        "Handover.ensure_tidy": _NAMES_OF_OURS,
        "Handover.forget": _NAMES_OF_OURS,
        "_move": _NAMES_OF_OURS,
        "_link": _NAMES_OF_OURS,
    },
    "engine/local/computes/living.py": {"Living.stop_own": _SOCKETS},
    "engine/local/computes/postmaster.py": {
        "is_postmaster": "the data folder itself: its name is in a folder of ours",
        "starting": "/proc",
        "orphans": "/proc, and the data folder itself",
        "_owner_and_zombie": "/proc: the kernel's own words",
        "_works_in": "/proc: the kernel's own link, and the data folder itself",
        "_is_same_folder": "a process's own word, looked up only in the folder of volumes, which is ours",
        "_resolved": "the folder of volumes",
        "_is_postgres": "/proc: at most 16 bytes",
    },
    "engine/local/computes/primaries.py": {"_knows_replicas": _RECORD, "_read_secret": _RECORD},
    "engine/local/computes/process.py": {
        "_spawn": _LOG,
        "_forget_postmaster": "/proc",
        "_ensure_sockets": _SOCKETS,
        "seal": _SOCKETS,
    },
    "engine/local/computes/side_door.py": {"ensure": _SOCKETS, "_leads_to": _SOCKETS, "_link": _SOCKETS},
    "engine/local/computes/standbys.py": {"write_passfile": _RECORD},
    "engine/local/history/archives.py": {
        "Archives.retired": _NAMES_OF_OURS,
        "Archives.drop": _NAMES_OF_OURS,
        "Archives._retired": "the record beside an archive, in a folder of ours",
    },
    "engine/local/history/families.py": {"_mark": _RECORD},
    "engine/local/history/figures.py": {"own_bytes": "the WAL folder itself: its name is in a folder of ours"},
    "engine/local/history/gathering.py": {"_empty": _NAMES_OF_OURS},
    "engine/local/history/pruning.py": {"Pruning._uids": "data folders and archives: their own names are ours"},
    "engine/local/history/spool.py": {
        "Spool.begin": _NAMES_OF_OURS,
        "Spool._link": "from an open folder into one of ours; a link is linked and not followed, and is seen after it",
        "Spool._is_whole": "a name in a folder of ours, looked at and not followed",
        "Spool._drop": _NAMES_OF_OURS,
    },
    "engine/local/images/image.py": {
        "Image._read": "a file in the home",
        "Image.problem": "the image's file",
        "Image.ensure_mounted": "the image's file",
        "Image.mount": "the place where it is mounted",
        "Image.finish": _NAMES_OF_OURS,
        "Image._take_name": "a file in the home",
        "Image._seen": "the image's file",
    },
    "engine/local/images/moving.py": {
        "Move.__init__": "the folders of volumes and templates",
        "Move._data_folders": "names in the folder of volumes, and whether one of ours in it is there",
        "Move._inside": _OPEN_FOLDER,
        "Move._folder": _OPEN_FOLDER,
        "Move._link": _OPEN_FOLDER,
        "Move._file": _OPEN_FOLDER,
    },
    "engine/local/isolation/processes.py": {
        "children": "/proc: the kernel's own numbers",
        "arguments": "/proc: at most 8 KB of what a process says of itself",
        "of_user": "/proc",
        "acts_as": "/proc: the kernel's own words",
    },
    "engine/local/isolation/traces.py": {"_forget_ipc": "/proc/sysvipc"},
    "engine/local/volumes/archive.py": {
        "ensure": "the archive itself: its name is in a folder of ours",
        "link": _RECORD,
        "_is_owned": "the archive itself: its name is in a folder of ours",
        "_aim": _RECORD,
    },
    "engine/local/volumes/btrfs.py": {
        "BtrfsDriver.make_folder": _NAMES_OF_OURS,
        "_Chown.folder": _OPEN_FOLDER,
    },
    "engine/local/volumes/copying.py": {
        "copy_file": "a new file (O_EXCL) in a folder of ours, or in an open one",
        "chown_tree": "a template, before any tenant is there",
        "_Copy.folder": _OPEN_FOLDER,
        "_Copy._subfolder": _OPEN_FOLDER,
        "_Copy._link": _OPEN_FOLDER,
        "_Copy._file": _OPEN_FOLDER,
    },
    "engine/local/volumes/easing.py": {"_ease_file": _OPEN_FOLDER},
    "engine/local/volumes/folder.py": {
        "VolumeFolder.owner": "the data folder itself: its name is in a folder of ours",
        "VolumeFolder.begin": _NAMES_OF_OURS,
        "VolumeFolder.open_to": _NAMES_OF_OURS,
        "VolumeFolder.put_away": _RECORD,
        "VolumeFolder.write_put_away": _RECORD,
        "VolumeFolder.check_not_put_away": _RECORD,
        "VolumeFolder.applied": _RECORD,
        "VolumeFolder.forget_applied": _RECORD,
        "VolumeFolder.write_conf": _RECORD,
        "VolumeFolder._fields": _RECORD,
    },
    "engine/local/volumes/making.py": {"drop": _NAMES_OF_OURS, "hide": _NAMES_OF_OURS, "leftovers": _NAMES_OF_OURS},
    "engine/local/volumes/packs.py": {
        "pack": "the pack, a file of ours",
        "_opened": "the pack, a file of ours",
        "_add": _OPEN_FOLDER,
        "_extract": _OPEN_FOLDER,
        "_parent": _OPEN_FOLDER,
    },
    "engine/local/volumes/plain.py": {"PlainDriver.make_folder": _NAMES_OF_OURS},
    "engine/local/volumes/reflink.py": {"ReflinkDriver.make_folder": _NAMES_OF_OURS},
    "engine/local/volumes/volumes.py": {
        "Volumes.move_wal": "of a spare, which is no tenant's yet",
        "Volumes.archived": _NAMES_OF_OURS,
        "Volumes._tidy": _NAMES_OF_OURS,
        "Volumes._list": _NAMES_OF_OURS,
        "NewVolume.begin": _NAMES_OF_OURS,
        "NewVolume.discard": _NAMES_OF_OURS,
        "NewVolume._wal_folder": "in a volume in the making, which its owner cannot pass",
        "_link_wal": "in a volume in the making or of a spare, which no tenant can pass",
    },
    "engine/local/warm/spares.py": {"Spares.is_usable": _NAMES_OF_OURS},
    "cli/admin/histories.py": {"_waiting": _NAMES_OF_OURS},
    "cli/admin/logs.py": {"logs": _LOG, "_file": _LOG, "_which_have": _LOG},
    "cli/admin/storage/taken.py": {
        "every": _NAMES_OF_OURS,
        "archived": "the folder of archives itself",
        "_measured": "the WAL folder itself: its name is in a folder of ours",
    },
    "cli/admin/tail.py": {"followed": _LOG, "_was_cut": _LOG, "_is_same": _LOG, "_left_unread": _LOG},
    "rotation.py": {
        "rotate": _LOG,
        "remove": _LOG,
        "backwards": _LOG,
        "_cut": _LOG,
        "_make_room": _LOG,
        "_pack": _LOG,
        "_made": _LOG,
        "_numbered": _LOG,
    },
}


def _is_allowed(found: RawCall) -> bool:
    if found.module in PRIMITIVES or found.module.startswith(tuple(OURS)):
        return True
    return found.function in ALLOWED.get(found.module, {})


def test_no_file_is_opened_by_its_name_where_a_tenant_could_have_put_another() -> None:
    raw = [
        f"src/bough/{each.module}, {each.function}: {each.call}"
        for each in raw_calls.in_source()
        if not _is_allowed(each)
    ]
    assert raw == [], (
        "Use bough.engine.local.tenant_files, or say in tests/security/test_02_lint.py why no tenant can write there."
    )


@pytest.mark.parametrize(
    "line",
    [
        "(data / 'global/pg_control').read_bytes()",
        "open(data / 'PG_VERSION')",
        "(data / 'PG_VERSION').open()",
        "os.open(data, os.O_RDONLY)",
        "os.listdir(data)",
        "shutil.rmtree(data)",
        "data.exists()",
        "os.path.realpath(data)",
        "data.stat()",
        "data.iterdir()",
        "os.chown(data, 0, 0)",
    ],
)
def test_a_new_call_by_name_is_found(line: str) -> None:
    text = f"class Volumes:\n    def grow(self):\n        if True:\n            return [{line} for _ in ()]\n"
    [found] = raw_calls.in_text(text, "engine/local/volumes/volumes.py")
    assert found.function == "Volumes.grow"
    assert not _is_allowed(found)


def test_what_asks_an_entry_of_an_open_folder_is_no_call_by_name() -> None:
    assert list(raw_calls.in_text("entry.is_dir(follow_symlinks=False)", "engine/local/volumes/sizes.py")) == []
