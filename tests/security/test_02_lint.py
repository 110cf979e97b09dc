"""Files in tenants' folders are opened by one helper: whatever opens, stats, lists or removes a file by its name in
another place has to say here why no tenant can have a hand in it.
"""

import pytest

from security import file_calls
from security.file_calls import FileCall

# The helper, and what is made of it for speed: each looks names up in open folders and follows no link.
PRIMITIVES = {
    "engine/local/tenant_files.py": "the helper",
    "engine/local/tenant_trees.py": "removes trees by open folders",
}

# Modules and packages that know no tenant's folder at all.
OURS = {
    "engine/local/installs/": "builds of Postgres in the cache, which is ours",
    "engine/local/isolation/system_users.py": "the machine's accounts",
    "engine/local/isolation/cgroups.py": "control groups: files of the kernel",
    "engine/local/isolation/cgroup_files.py": "control groups: files of the kernel",
    "engine/local/isolation/cgroup_hierarchies.py": "control groups: files of the kernel",
    "engine/local/isolation/mount_namespace.py": "the home, public folders and the kernel's list of mounts",
    "engine/local/isolation/project_uids.py": "links in the home's folder uids (0700) and in /run/bough/uids (0700)",
    "engine/local/images/allocation.py": "the image's file, in a folder of the operator",
    "engine/local/images/image_setup.py": "the image's file and the home itself",
    "engine/local/images/mounts.py": "/proc and /sys",
    "engine/local/folder_index.py": "the home's folders run and volumes: their names are ours",
    "engine/local/volumes/volume_names.py": "the folder of volumes: its names are ours",
    "engine/local/folders.py": "the home and the folders directly in it",
    "engine/local/free_space.py": "free space of file systems",
    "engine/local/templates.py": "templates: made by initdb in a folder of ours, before any tenant is there",
    "engine/local/computes/runs.py": "the home's folder run (0700)",
    "engine/local/computes/process_usage.py": "/proc: the kernel's own figures, bounded by it",
    "engine/local/warm/pool.py": "/proc/meminfo",
    "tasks/cleanup.py": "the home's folder of logs (0700); a tenant only writes to its log's descriptor",
    "tasks/rotate_logs.py": "the same",
    "tasks/suspend_idle.py": "a row, not a file",
    "control/": "keys, certificates, notes and sockets of the platform; control knows no volume",
    "api/": "the listener's socket and rows",
    "pages/": "files of the package",
    "app.py": "the home and its keys",
    "cli/get_db/": "runs as the developer, in the developer's own folder",
    "supervisor/daemon.py": "the platform's log",
    "supervisor/processes.py": "the platform's log",
    "cli/config.py": "the settings' file in the home",
    "cli/doctor/folders.py": "the home and the folders above it",
    "supervisor/home_lock.py": "the home",
    "cli/orphaned_computes.py": "the home's folder run (0700)",
    "supervisor/gateway_user.py": "the folder of the gateway's sockets",
    "supervisor/listeners.py": "sockets of the gateway",
    "supervisor/lock.py": "the home's lock file",
    "cli/doctor/machine.py": "accounts and /proc",
    "supervisor/memory_limits.py": "/proc of our own children",
    "supervisor/ports.py": "a file in the home",
    "cli/socket_table.py": "/proc/net: the kernel's own words",
    "supervisor/state.py": "a file in the home",
    "supervisor/platform.py": "certificates of the platform",
    "cli/operator_client.py": "keys of the platform",
    "cli/startup_message.py": "keys of the platform",
    "cli/storage/volume_uses.py": "the store's file",
    "cli/storage/preconditions.py": "the home, and names of volumes in a folder of ours",
    "cli/storage/status.py": "the image's file, and the folder of volumes itself",
}

_NAMES_OF_OURS = "names in a folder that only we can write"
_RECORD = "a file of ours in the volume's folder, which the tenant can pass and cannot write"
_SOCKETS = "the folder of sockets is ours; a name in it is looked at and not followed"
_LOG = "the folder of logs is 0700; the tenant has no more than a descriptor that appends"
_OPEN_FOLDER = "looked up in an open folder, no link is followed"

# In modules that deal with tenants' folders: function by function.
ALLOWED: dict[str, dict[str, str]] = {
    "engine/local/durable_files.py": {
        "write_atomically": "for folders of ours; what is written into a tenant's goes by tenant_files.write_file",
        "publish_folder": _NAMES_OF_OURS,
        "_open_folder": "folders whose own names are ours",
    },
    "engine/local/file_lock.py": {"hold_file_lock": "lock files in folders of ours"},
    "engine/local/project_users.py": {
        "_find_users": "data folders and archives: their own names are in folders of ours"
    },
    "engine/local/volume_packer.py": {
        "VolumePacker._try_pack": _RECORD,
        "VolumePacker._drop_data": _NAMES_OF_OURS,
        "VolumePacker._unpack": _NAMES_OF_OURS,
        "_drop_pack": _RECORD,
    },
    "engine/local/computes/computes.py": {"_is_same_folder": "names in the folder of sockets, which is ours"},
    "engine/local/computes/database_changes.py": {"_rename": "of a database, by SQL"},
    "engine/local/computes/spare_assignment.py": {
        "SpareAssignment.assign_volume": _NAMES_OF_OURS,
        "SpareAssignment.remove_stale_links": _NAMES_OF_OURS,
        "SpareAssignment.remove_runtime_files": _NAMES_OF_OURS,
        "_move": _NAMES_OF_OURS,
        "_link": _NAMES_OF_OURS,
    },
    "engine/local/computes/running.py": {"RunningComputes.stop_unassigned": _SOCKETS},
    "engine/local/computes/postmaster.py": {
        "is_postmaster": "the data folder itself: its name is in a folder of ours",
        "find_starting": "/proc",
        "find_orphans": "/proc, and the data folder itself",
        "_owner_and_zombie": "/proc: the kernel's own words",
        "_works_in": "/proc: the kernel's own link, and the data folder itself",
        "_is_same_folder": "a process's own word, looked up only in the folder of volumes, which is ours",
        "_is_postgres": "/proc: at most 16 bytes",
    },
    "engine/local/computes/replication_slots.py": {
        "_has_current_hba": _RECORD,
        "_read_secret": _RECORD,
        "_ensure_linked": _SOCKETS,
        "_is_linked": _SOCKETS,
        "_link": _SOCKETS,
    },
    "engine/local/computes/process.py": {
        "_spawn": _LOG,
        "_clean_up_postmaster": "/proc",
        "_ensure_sockets": _SOCKETS,
        "seal_socket_folder": _SOCKETS,
    },
    "engine/local/computes/standby_files.py": {"write_passfile": _RECORD},
    "engine/local/history/wal_archives.py": {
        "WalArchives.list_retired": _NAMES_OF_OURS,
        "WalArchives._drop": _NAMES_OF_OURS,
        "WalArchives._read_retired_record": "the record beside an archive, in a folder of ours",
    },
    "engine/local/history/spool_builder.py": {"_empty": _NAMES_OF_OURS},
    "engine/local/history/pruner.py": {"HistoryPruner._uids": "data folders and archives: their own names are ours"},
    "engine/local/history/spool.py": {
        "Spool.create": _NAMES_OF_OURS,
        "Spool._link": "from an open folder into one of ours; a link is linked and not followed, and is seen after it",
        "Spool._is_complete": "a name in a folder of ours, looked at and not followed",
        "Spool._drop": _NAMES_OF_OURS,
    },
    "engine/local/images/image.py": {
        "Image._read": "a file in the home",
        "Image.explain_mount_problem": "the image's file",
        "Image.ensure_mounted": "the image's file",
        "Image.mount": "the place where it is mounted",
        "Image.finish_setup": _NAMES_OF_OURS,
        "Image._take_name": "a file in the home",
        "Image._read_marker": "the image's file",
    },
    "engine/local/images/folder_migration.py": {
        "FolderMigration.__init__": "the folders of volumes and templates",
        "FolderMigration._data_folders": "names in the folder of volumes, and whether one of ours in it is there",
        "FolderMigration._copy_contents": _OPEN_FOLDER,
        "FolderMigration._folder": _OPEN_FOLDER,
        "FolderMigration._link": _OPEN_FOLDER,
        "FolderMigration._file": _OPEN_FOLDER,
    },
    "engine/local/isolation/processes.py": {
        "list_children": "/proc: the kernel's own numbers",
        "read_arguments": "/proc: at most 8 KB of what a process says of itself",
        "list_pids_of_user": "/proc",
        "runs_as_user": "/proc: the kernel's own words",
    },
    "engine/local/isolation/uid_cleanup.py": {"_remove_ipc": "/proc/sysvipc"},
    "engine/local/volumes/archive_link.py": {
        "ensure_archive": "the archive itself: its name is in a folder of ours",
        "link_archive": _RECORD,
        "_is_owned": "the archive itself: its name is in a folder of ours",
        "_link_target": _RECORD,
    },
    "engine/local/volumes/btrfs.py": {
        "BtrfsDriver.make_folder": _NAMES_OF_OURS,
        "_Chown.folder": _OPEN_FOLDER,
    },
    "engine/local/volumes/tree_copy.py": {
        "copy_file": "a new file (O_EXCL) in a folder of ours, or in an open one",
        "chown_tree": "a template, before any tenant is there",
        "_Copy.folder": _OPEN_FOLDER,
        "_Copy._subfolder": _OPEN_FOLDER,
        "_Copy._link": _OPEN_FOLDER,
        "_Copy._file": _OPEN_FOLDER,
    },
    "engine/local/volumes/disk_usage.py": {
        "measure_own_bytes": "the WAL folder itself: its name is in a folder of ours"
    },
    "engine/local/volumes/paced_free.py": {"_free_file_blocks": _OPEN_FOLDER},
    "engine/local/volumes/folder.py": {
        "VolumeFolder.owner": "the data folder itself: its name is in a folder of ours",
        "VolumeFolder.create": _NAMES_OF_OURS,
        "VolumeFolder.grant_access": _NAMES_OF_OURS,
        "VolumeFolder.read_archived_state": _RECORD,
        "VolumeFolder.write_archived_state": _RECORD,
        "VolumeFolder.check_not_archived": _RECORD,
        "VolumeFolder.read_applied_digest": _RECORD,
        "VolumeFolder.clear_applied_digest": _RECORD,
        "VolumeFolder.write_conf": _RECORD,
        "VolumeFolder._fields": _RECORD,
    },
    "engine/local/volumes/atomic_folders.py": {
        "remove_atomically": _NAMES_OF_OURS,
        "hide_folder": _NAMES_OF_OURS,
        "list_leftovers": _NAMES_OF_OURS,
    },
    "engine/local/volumes/pack_file.py": {
        "write_pack": "the pack, a file of ours",
        "_open_pack": "the pack, a file of ours",
        "_add": _OPEN_FOLDER,
        "_extract": _OPEN_FOLDER,
        "_open_parent": _OPEN_FOLDER,
    },
    "engine/local/volumes/plain.py": {"PlainDriver.make_folder": _NAMES_OF_OURS},
    "engine/local/volumes/reflink.py": {"ReflinkDriver.make_folder": _NAMES_OF_OURS},
    "engine/local/volumes/volumes.py": {
        "Volumes.move_wal": "of a spare, which is no tenant's yet",
        "Volumes.list_archives": _NAMES_OF_OURS,
        "Volumes._remove_leftovers": _NAMES_OF_OURS,
        "Volumes._list": _NAMES_OF_OURS,
    },
    "engine/local/volumes/new_volume.py": {
        "NewVolume.create": _NAMES_OF_OURS,
        "NewVolume.discard": _NAMES_OF_OURS,
        "NewVolume._wal_folder": "in a volume in the making, which its owner cannot pass",
        "link_wal": "in a volume in the making or of a spare, which no tenant can pass",
    },
    "engine/local/warm/spares.py": {"SpareComputes.is_usable": _NAMES_OF_OURS},
    "cli/logs.py": {"logs": _LOG, "_find_log": _LOG, "_suggest_endpoints": _LOG},
    "cli/storage/usage.py": {
        "measure_volumes": _NAMES_OF_OURS,
        "measure_archive": "the folder of archives itself",
        "_measure": "the WAL folder itself: its name is in a folder of ours",
    },
    "cli/log_tail.py": {"follow": _LOG, "_was_rotated": _LOG, "_is_same": _LOG, "_read_rest": _LOG},
    "log_rotation.py": {
        "rotate": _LOG,
        "remove_log": _LOG,
        "read_backwards": _LOG,
        "_truncate": _LOG,
        "_shift_rotated": _LOG,
        "_compress": _LOG,
        "_new_file": _LOG,
        "_iterate_rotated": _LOG,
    },
}


def _is_allowed(found: FileCall) -> bool:
    if found.module in PRIMITIVES or found.module.startswith(tuple(OURS)):
        return True
    return found.function in ALLOWED.get(found.module, {})


def test_no_file_is_opened_by_its_name_where_a_tenant_could_have_put_another() -> None:
    raw = [
        f"src/bough/{each.module}, {each.function}: {each.call}"
        for each in file_calls.find_in_source()
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
    [found] = file_calls.find_in_text(text, "engine/local/volumes/volumes.py")
    assert found.function == "Volumes.grow"
    assert not _is_allowed(found)


def test_what_asks_an_entry_of_an_open_folder_is_no_call_by_name() -> None:
    assert (
        list(file_calls.find_in_text("entry.is_dir(follow_symlinks=False)", "engine/local/volumes/disk_usage.py")) == []
    )
