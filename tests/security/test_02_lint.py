"""Rule 2: only one module opens files in tenants' folders.

Any other code that opens, stats, lists or removes a file by path must be listed here, with the reason why no tenant
can control that path.
"""

import pytest

from security import file_calls
from security.file_calls import FileCall

# Modules that look names up in open folders and follow no links.
TENANT_FILE_MODULES = {
    "engine/local/tenant_files.py": "reads and writes single files",
    "engine/local/tenant_trees.py": "removes trees through open folders",
}

# Modules and packages that access no tenant's folder.
MODULES_WITHOUT_TENANT_FILES = {
    "engine/local/debian/": "packages in the cache and files of apt, which only the platform can write",
    "engine/local/installs/": "builds of Postgres in the cache, which only the platform can write",
    "engine/local/isolation/cgroups.py": "control groups: files of the kernel",
    "engine/local/isolation/cgroup_files.py": "control groups: files of the kernel",
    "engine/local/isolation/cgroup_hierarchies.py": "control groups: files of the kernel",
    "engine/local/isolation/mount_namespace.py": "the home, public folders and the list of mounts in /proc",
    "engine/local/isolation/project_uids.py": "links in the folders uids of the home and /run/bough/uids (0700)",
    "engine/local/images/allocation.py": "the image file, in a folder of the operator",
    "engine/local/images/image_setup.py": "the image file and the home itself",
    "engine/local/images/mounts.py": "/proc and /sys",
    "engine/local/images/new_home.py": "the home itself",
    "engine/local/images/thin_space.py": "the image file, and the file of withheld space directly in the image",
    "engine/local/images/withheld_file.py": "a file directly in the image, where only the platform can write",
    "engine/local/folder_index.py": "the folders run and volumes of the home, which only the platform can write",
    "engine/local/volumes/volume_names.py": "the folder of volumes, which only the platform can write",
    "engine/local/folders.py": "the home and the folders directly in it",
    "engine/local/free_space.py": "free space of file systems",
    "engine/local/templates.py": "templates, created by initdb before any tenant has access",
    "engine/local/computes/runs.py": "the home's folder run (0700)",
    "engine/local/computes/audit_files.py": "folders of the platform, in which a tenant can create and replace nothing",
    "engine/local/computes/audit_collection.py": "the same folders, and the folder of logs (0700)",
    "engine/local/computes/audit_logs.py": "the folder of these folders",
    "engine/local/machine_usage.py": "/proc, written by the kernel",
    "engine/local/computes/process_usage.py": "/proc, with content of bounded size from the kernel",
    "engine/local/warm/pool.py": "/proc/meminfo",
    "tasks/cleanup.py": "the folder of logs (0700); a tenant has only a descriptor of its log",
    "tasks/rotate_logs.py": "the folder of logs (0700); a tenant has only a descriptor of its log",
    "control/": "keys, certificates and sockets of the platform; control accesses no volume",
    "api/": "the socket of the listener, and rows",
    "pages/": "files of the package",
    "app.py": "the home and its keys",
    "cli/get_db/": "runs as the developer, in the developer's own folder",
    "supervisor/daemon.py": "the platform's log",
    "supervisor/processes.py": "the platform's log",
    "cli/config.py": "the settings file in the home",
    "cli/doctor/folders.py": "the home and the folders above it",
    "supervisor/home_lock.py": "the home",
    "cli/orphaned_computes.py": "the home's folder run (0700)",
    "supervisor/gateway_user.py": "the folder of gateway sockets",
    "supervisor/gateway_listeners.py": "sockets of the gateway",
    "supervisor/lock.py": "the home's lock file",
    "cli/doctor/machine.py": "user accounts and /proc",
    "supervisor/memory_limits.py": "/proc of child processes of the supervisor",
    "supervisor/ports.py": "a file in the home",
    "cli/socket_table.py": "/proc/net, written by the kernel",
    "supervisor/state.py": "a file in the home",
    "supervisor/platform.py": "certificates of the platform",
    "cli/operator_client.py": "keys of the platform",
    "cli/startup_message.py": "keys of the platform",
    "cli/storage/volume_uses.py": "the database file of the store",
    "cli/storage/preconditions.py": "the home and the names in the folder of volumes",
    "cli/storage/status.py": "the image file and the folder of volumes itself",
}

_OWN_FOLDER = "names in a folder that only the platform can write"
_VOLUME_RECORD = "a file of the platform in the volume folder, which the tenant can traverse but not write"
_SOCKET_FOLDER = "names in the folder of sockets, which belongs to the platform; links are not followed"
_LOG_FOLDER = "the folder of logs is 0700; the tenant has only a descriptor for appending"
_OPEN_FOLDER = "looked up in an open folder; links are not followed"

# Functions in modules that access tenants' folders.
ALLOWED_FUNCTIONS: dict[str, dict[str, str]] = {
    "engine/local/durable_files.py": {
        "write_atomically": "for folders of the platform; tenant_files.write_file writes into tenants' folders",
        "publish_folder": _OWN_FOLDER,
        "_open_folder": "folders in a folder that only the platform can write",
    },
    "engine/local/file_lock.py": dict.fromkeys(
        ("hold_file_lock", "try_file_lock"), "lock files in folders of the platform"
    ),
    "engine/local/project_users.py": {
        "_find_users": "data directories and archives themselves, in folders of the platform"
    },
    "engine/local/volume_packer.py": {
        "VolumePacker._try_pack": _VOLUME_RECORD,
        "VolumePacker._drop_data": _OWN_FOLDER,
        "VolumePacker._extract": _OWN_FOLDER,
        "_drop_pack": _VOLUME_RECORD,
    },
    "engine/local/computes/compute_launcher.py": {
        "_is_same_folder": "names in the folder of sockets, which belongs to the platform"
    },
    "engine/local/collations.py": {"_read": _VOLUME_RECORD},
    "engine/local/build_uses.py": {"BuildUses.record_running": "the volume folder itself"},
    "engine/local/sampling.py": {"LocalSampling._open": "opens a session"},
    "engine/local/volumes/build_use.py": dict.fromkeys(("BuildUse.read", "read_checked_install"), _VOLUME_RECORD),
    "engine/local/extension_uses.py": {"UseCheck.__call__": "the folder of volumes itself"},
    "engine/local/volumes/extension_record.py": {"ExtensionRecord.read": _VOLUME_RECORD},
    "cli/extensions/list.py": {"_find_state": "libraries of builds in the cache"},
    "cli/extensions/requests.py": {"find_project": "the store in the home"},
    "engine/local/computes/preloading.py": {"_restrict_to_existing": "libraries of builds in the cache"},
    "engine/local/computes/auditing.py": {"_can_use_pgaudit": "libraries and scripts of builds in the cache"},
    "engine/local/computes/database_changes.py": {"_rename": "renames a database with SQL"},
    "engine/local/computes/spare_assignment.py": {
        "SpareAssignment.assign_volume": _OWN_FOLDER,
        "SpareAssignment.remove_stale_links": _OWN_FOLDER,
        "SpareAssignment.remove_runtime_files": _OWN_FOLDER,
        "_move": _OWN_FOLDER,
        "_link": _OWN_FOLDER,
    },
    "engine/local/computes/running.py": {"RunningComputes.stop_unassigned": _SOCKET_FOLDER},
    "engine/local/computes/postmaster.py": {
        "is_postmaster": "the data directory itself, in a folder of the platform",
        "find_starting": "/proc",
        "find_orphans": "/proc and the data directory itself",
        "_owner_and_zombie": "/proc, written by the kernel",
        "_works_in": "a link in /proc, and the data directory itself",
        "_is_same_folder": "a path given by a process, looked up only in the folder of volumes",
        "_is_postgres": "/proc, at most 16 bytes",
    },
    "engine/local/computes/replication_slots.py": {
        "_has_current_hba": _VOLUME_RECORD,
        "_read_secret": _VOLUME_RECORD,
        "_ensure_linked": _SOCKET_FOLDER,
        "_is_linked": _SOCKET_FOLDER,
        "_link": _SOCKET_FOLDER,
    },
    "engine/local/computes/process.py": {
        "_spawn": _LOG_FOLDER,
        "_clean_up_postmaster": "/proc",
        "_ensure_sockets": _SOCKET_FOLDER,
        "seal_socket_folder": _SOCKET_FOLDER,
    },
    "engine/local/computes/standby_files.py": {"write_passfile": _VOLUME_RECORD},
    "engine/local/history/wal_archives.py": {
        "WalArchives.list_retired": _OWN_FOLDER,
        "WalArchives._drop": _OWN_FOLDER,
        "WalArchives._read_retired_record": "the record next to an archive, in a folder of the platform",
    },
    "engine/local/history/spool_builder.py": {"_empty": _OWN_FOLDER},
    "engine/local/history/pruner.py": {
        "HistoryPruner._uids": "data directories and archives themselves, in folders of the platform"
    },
    "engine/local/history/spool.py": {
        "Spool.create": _OWN_FOLDER,
        "Spool._link": "hard links from an open folder; symbolic links are not followed, and are detected",
        "Spool._is_complete": "a name in a folder of the platform; links are not followed",
        "Spool._drop": _OWN_FOLDER,
    },
    "engine/local/images/image.py": {
        "Image._read": "a file in the home",
        "Image.explain_mount_problem": "the image file",
        "Image.ensure_mounted": "the image file",
        "Image.mount": "the mount point",
        "Image.finish_setup": _OWN_FOLDER,
        "Image._rename_staging_file": "a file in the home",
        "Image._read_marker": "the image file",
    },
    "engine/local/images/folder_migration.py": {
        "FolderMigration.__init__": "the folders of volumes and templates",
        "FolderMigration._create_data_folders": "names in the folder of volumes",
        "FolderMigration._copy_contents": _OPEN_FOLDER,
        "FolderMigration._copy_folder": _OPEN_FOLDER,
        "FolderMigration._copy_link": _OPEN_FOLDER,
        "FolderMigration._copy_file": _OPEN_FOLDER,
    },
    "engine/local/isolation/processes.py": {
        "list_children": "/proc, written by the kernel",
        "read_arguments": "/proc, at most 8 KB of the command line of a process",
        "list_pids_of_user": "/proc",
        "runs_as_user": "/proc, written by the kernel",
    },
    "engine/local/isolation/openssl_limits.py": {
        "_ensure_library": "a file in the cache, or in the home of an ordinary user",
        "_replace": "a new file in the same folder",
    },
    "engine/local/isolation/uid_cleanup.py": {"_remove_ipc": "/proc/sysvipc"},
    "engine/local/volumes/wal_archive_link.py": {
        "ensure_wal_archive": "the archive itself, in a folder of the platform",
        "link_wal_archive": _VOLUME_RECORD,
        "_is_owned": "the archive itself, in a folder of the platform",
        "_link_target": _VOLUME_RECORD,
    },
    "engine/local/volumes/btrfs.py": {
        "BtrfsDriver.make_folder": _OWN_FOLDER,
        "_OwnerChange.apply_to_folder": _OPEN_FOLDER,
    },
    "engine/local/volumes/file_copy.py": {
        "copy_file": "a new file (O_EXCL) in a folder of the platform or in an open folder"
    },
    "engine/local/volumes/tree_copy.py": {
        "chown_tree": "a template, before any tenant has access",
        "_TreeCopier.copy_folder": _OPEN_FOLDER,
        "_TreeCopier._copy_subfolder": _OPEN_FOLDER,
        "_TreeCopier._copy_link": _OPEN_FOLDER,
        "_TreeCopier._copy_file": _OPEN_FOLDER,
    },
    "engine/local/volumes/disk_usage.py": {"measure_own_bytes": "the WAL folder itself, in a folder of the platform"},
    "engine/local/volumes/paced_free.py": {"_free_file_blocks": _OPEN_FOLDER},
    "engine/local/volumes/folder.py": {
        "VolumeFolder.owner": "the data directory itself, in a folder of the platform",
        "VolumeFolder.create": _OWN_FOLDER,
        "VolumeFolder.grant_access": _OWN_FOLDER,
        "VolumeFolder.read_archived_state": _VOLUME_RECORD,
        "VolumeFolder.write_archived_state": _VOLUME_RECORD,
        "VolumeFolder.check_not_archived": _VOLUME_RECORD,
        "VolumeFolder.read_applied_digest": _VOLUME_RECORD,
        "VolumeFolder.clear_applied_digest": _VOLUME_RECORD,
        "VolumeFolder.write_conf": _VOLUME_RECORD,
        "VolumeFolder._fields": _VOLUME_RECORD,
    },
    "engine/local/volumes/atomic_folders.py": {
        "remove_atomically": _OWN_FOLDER,
        "hide_folder": _OWN_FOLDER,
        "list_leftovers": _OWN_FOLDER,
    },
    "engine/local/volumes/pack_file.py": {
        "write_pack": "the pack, a file of the platform",
        "_open_pack": "the pack, a file of the platform",
        "_add": _OPEN_FOLDER,
        "_extract": _OPEN_FOLDER,
        "_open_parent": _OPEN_FOLDER,
    },
    "engine/local/volumes/plain.py": {"PlainDriver.make_folder": _OWN_FOLDER},
    "engine/local/volumes/reflink.py": {"ReflinkDriver.make_folder": _OWN_FOLDER},
    "engine/local/volumes/volumes.py": {
        "Volumes.move_wal": "the folder of a spare, which no tenant has yet",
        "Volumes.list_files": "files of the platform in the volume folders, which tenants can traverse but not write",
        "Volumes.list_wal_archives": _OWN_FOLDER,
        "Volumes._remove_leftovers": _OWN_FOLDER,
    },
    "engine/local/volumes/new_volume.py": {
        "NewVolume.create": _OWN_FOLDER,
        "NewVolume.discard": _OWN_FOLDER,
        "NewVolume._wal_folder": "in an unfinished volume, which the tenant cannot traverse",
        "link_wal": "in an unfinished volume or a spare, which no tenant can traverse",
    },
    "engine/local/warm/spares.py": {"SpareComputes.is_usable": _OWN_FOLDER},
    "cli/logs.py": dict.fromkeys(("logs", "_find_log", "_find_audit_log", "_suggest_endpoints"), _LOG_FOLDER),
    "cli/storage/image_facts.py": {"describe_image": "the image file, in a folder of the operator"},
    "cli/storage/usage.py": {
        "measure_volumes": _OWN_FOLDER,
        "measure_archive": "the folder of archives itself",
        "_measure": "the WAL folder itself, in a folder of the platform",
    },
    "cli/log_tail.py": {
        "follow": _LOG_FOLDER,
        "_was_rotated": _LOG_FOLDER,
        "_is_same": _LOG_FOLDER,
        "_read_rest": _LOG_FOLDER,
    },
    "log_rotation.py": {
        "rotate": _LOG_FOLDER,
        "remove_log": _LOG_FOLDER,
        "read_backwards": _LOG_FOLDER,
        "_truncate": _LOG_FOLDER,
        "_shift_rotated": _LOG_FOLDER,
        "_compress": _LOG_FOLDER,
        "_new_file": _LOG_FOLDER,
        "_iterate_rotated": _LOG_FOLDER,
    },
}


def _is_allowed(call: FileCall) -> bool:
    if call.module in TENANT_FILE_MODULES or call.module.startswith(tuple(MODULES_WITHOUT_TENANT_FILES)):
        return True
    return call.function in ALLOWED_FUNCTIONS.get(call.module, {})


def test_no_file_is_opened_by_its_name_where_a_tenant_could_have_put_another() -> None:
    violations = [
        f"src/bough/{call.module}, {call.function}: {call.call}"
        for call in file_calls.find_in_source()
        if not _is_allowed(call)
    ]
    assert violations == [], (
        "Use bough.engine.local.tenant_files, or state in tests/security/test_02_lint.py why no tenant can write there."
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
    [call] = file_calls.find_in_text(text, "engine/local/volumes/volumes.py")
    assert call.function == "Volumes.grow"
    assert not _is_allowed(call)


def test_what_asks_an_entry_of_an_open_folder_is_no_call_by_name() -> None:
    assert (
        list(file_calls.find_in_text("entry.is_dir(follow_symlinks=False)", "engine/local/volumes/disk_usage.py")) == []
    )
