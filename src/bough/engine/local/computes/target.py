"""A compute's wish as files and digests: what to compare and what to write. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.spec import ComputeSpec
from bough.postgres import pg_hba, postgresql_conf, storage

_LOGICAL, _NO_LOGICAL = "logical", "no-logical"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeTarget:
    files: Mapping[str, str]  # name in the volume's `conf/` → text
    settings_digest: str  # digest of the files: when it is in force, nothing is to be reloaded
    roles_digest: str  # digest of the roles that Postgres is to be told of; empty when there are none
    databases_digest: str  # the same of databases
    replication_mode: str  # whether its roles may replicate; empty when Postgres is not told
    limits_text: str  # text of the file with what follows from the plan; it is no part of the digest

    @property
    def applied_text(self) -> str:
        return f"{self.roles_digest} {self.databases_digest} {self.replication_mode}"

    def is_applied(self, applied: str | None) -> bool:
        """Whether all of it is in what was applied last, so that nothing is to be made."""
        if applied is None:
            return False
        roles, databases, replication = (*applied.split(" "), "", "")[:3]  # versions before wrote fewer words
        told = ((self.roles_digest, roles), (self.databases_digest, databases), (self.replication_mode, replication))
        return all(wished in ("", known) for wished, known in told)


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
        limits_text=storage.render_limits(spec.storage_limit_bytes, spec.settings),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
