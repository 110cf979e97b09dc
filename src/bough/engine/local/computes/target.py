"""The target state of a compute as configuration files and digests. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from bough.domain.output_plugins import OUTPUT_PLUGINS
from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.spec import ComputeSpec
from bough.postgres import pg_hba, postgresql_conf, storage

# With the allowed output plugins, so that a change of them is applied.
_LOGICAL, _NO_LOGICAL = f"logical:{','.join(OUTPUT_PLUGINS)}", "no-logical"
_ADMIN_PATH = "admin-path"  # the superuser has a search_path of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeTarget:
    files: Mapping[str, str]  # name in the volume's `conf/` → text
    settings_digest: str  # of the files; equal digests need no reload
    roles_digest: str  # of the roles to create; empty when there are none
    databases_digest: str  # of the databases to create; empty when there are none
    replication_mode: str  # whether tenant roles may replicate; empty for a read replica
    admin_mode: str  # what is set for the superuser; empty for a read replica
    limits_text: str  # the file with settings that follow from the plan; not part of the digest

    @property
    def applied_digest(self) -> str:
        return f"{self.roles_digest} {self.databases_digest} {self.replication_mode} {self.admin_mode}"

    def is_applied(self, applied: str | None) -> bool:
        """Return whether `applied`, the text that was applied last, covers this target."""
        if applied is None:
            return False
        words = [*applied.split(" "), "", "", ""]  # earlier versions wrote fewer words
        targets = self.roles_digest, self.databases_digest, self.replication_mode, self.admin_mode
        return all(target in ("", current) for target, current in zip(targets, words, strict=False))


def build_target(spec: ComputeSpec, *, major: int, socket_users: SocketUsers) -> ComputeTarget:
    names = [role.name for role in spec.roles]
    files = {
        "postgresql.conf": postgresql_conf.render_with_includes(
            spec.settings, major=major, is_standby=spec.primary is not None
        ),
        "pg_hba.conf": pg_hba.render_hba(),
        "pg_ident.conf": pg_hba.render_ident(
            major=major, control_user=socket_users.control, gateway_user=socket_users.gateway, roles=names
        ),
    }
    databases = [(database.name, database.owner) for database in spec.databases]
    return ComputeTarget(
        files=files,
        settings_digest=_digest(files),
        roles_digest=_digest(spec.target_verifiers) if spec.target_verifiers else "",
        databases_digest=_digest(databases) if databases else "",
        replication_mode="" if spec.primary is not None else _LOGICAL if spec.has_logical_replication else _NO_LOGICAL,
        admin_mode="" if spec.primary is not None else _ADMIN_PATH,
        limits_text=storage.render_limits(spec.storage_limit_bytes, spec.settings),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
