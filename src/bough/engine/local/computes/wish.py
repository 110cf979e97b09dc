"""A compute's wish as files and digests: what to compare and what to write. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from bough.engine.local.isolation.accounts import Entrants
from bough.engine.spec import ComputeSpec
from bough.postgres import conf, hba, storage

_LOGICAL, _NO_LOGICAL = "logical", "no-logical"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    files: Mapping[str, str]  # name in the volume's `conf/` → text
    settings: str  # digest of the files: when it is in force, nothing is to be reloaded
    roles: str  # digest of the roles that Postgres is to be told of; empty when there are none
    databases: str  # the same of databases
    replication: str  # whether its roles may replicate; empty when Postgres is not told
    limits: str  # text of the file with what follows from the plan; it is no part of the digest

    @property
    def contents(self) -> str:
        return f"{self.roles} {self.databases} {self.replication}"

    def is_in(self, applied: str | None) -> bool:
        """Whether all of it is in what was applied last, so that nothing is to be made."""
        if applied is None:
            return False
        roles, databases, replication = (*applied.split(" "), "", "")[:3]  # versions before wrote fewer words
        told = ((self.roles, roles), (self.databases, databases), (self.replication, replication))
        return all(wished in ("", known) for wished, known in told)


def wish(spec: ComputeSpec, *, major: int, entrants: Entrants) -> Wish:
    names = [role.name for role in spec.roles]
    files = {
        "postgresql.conf": conf.whole_text(spec.settings, major=major, follows=spec.follows is not None),
        "pg_hba.conf": hba.hba_text(),
        "pg_ident.conf": hba.ident_text(
            major=major, control_user=entrants.control, gateway_user=entrants.gateway, roles=names
        ),
    }
    databases = [(database.name, database.owner) for database in spec.databases]
    return Wish(
        files=files,
        settings=_digest(files),
        roles=_digest(spec.wished_roles) if spec.wished_roles else "",
        databases=_digest(databases) if databases else "",
        replication="" if spec.follows is not None else _LOGICAL if spec.replicates_logically else _NO_LOGICAL,
        limits=storage.limits_text(spec.storage_bytes, spec.settings),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
