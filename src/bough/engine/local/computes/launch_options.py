"""The command line and the folders that the process of a compute is started with."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.folders import Folders
from bough.engine.local.installs import server_parameters
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation import openssl_limits
from bough.engine.local.isolation.mount_namespace import MountNamespace
from bough.engine.local.isolation.sandbox import ENVIRONMENT, Identity
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.port import EngineError
from bough.engine.spec import ComputeSpec
from bough.postgres import library_parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """Everything that the process of a compute is started with."""

    install: Install
    from_template: bool  # the volume was cloned from the template, not from a branch
    data: Path
    wal: Path
    conf: Path
    sockets: Path
    log: Path
    owner: Identity
    namespace: MountNamespace
    environment: Mapping[str, str]
    library_parameters: Mapping[str, str]
    is_standby: bool = False  # a read replica, or read-only
    audit_folder: Path | None = None  # where it writes its log; None: to `log` only

    @property
    def command(self) -> list[str]:
        """Settings that no configuration file may override are arguments."""
        settings = {
            "config_file": self.conf / "postgresql.conf",
            "hba_file": self.conf / "pg_hba.conf",
            "ident_file": self.conf / "pg_ident.conf",
            "unix_socket_directories": self.sockets,
            "listen_addresses": "",
            "port": 5432,
            **self.library_parameters,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [self.install.program_path("postgres"), "-D", str(self.data), *options]


def read_checked_record(folder: VolumeFolder, install: Install) -> VolumeRecord:
    record = folder.read_record()
    if record is None:
        raise EngineError("The branch's volume does not exist.", transient=False)
    folder.check_not_archived()
    if record.major != install.major:
        raise EngineError(
            f"The branch was created with Postgres {record.major} and cannot be opened with {install.id}.",
            transient=False,
        )
    return record


def build_launch_options(
    spec: ComputeSpec, install: Install, folders: Folders, folder: VolumeFolder, record: VolumeRecord
) -> LaunchOptions:
    protection = openssl_limits.build_environment(install.program_path("postgres"), folders.cache, folders.home)
    return LaunchOptions(
        install=install,
        from_template=record.source_volume_id is None,
        data=folder.data,
        wal=folder.pg_wal_of(record),
        conf=folder.conf,
        sockets=folders.socket_folder(spec.endpoint_id),
        log=folders.log_file(spec.endpoint_id),
        owner=folder.owner,
        namespace=folders.mount_namespace,
        environment=ENVIRONMENT | install.environment | protection,
        library_parameters=library_parameters.build_arguments(
            spec.settings, server_parameters.list_parameters(install)
        ),
        is_standby=spec.primary is not None or spec.is_read_only,
        audit_folder=None if spec.audit_level is None else folders.audit_folder(spec.endpoint_id),
    )
