"""A compute's wish as files and digests: what to compare and what to write. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from bough.engine.local.isolation.accounts import Entrants
from bough.engine.spec import ComputeSpec
from bough.postgres import conf, hba


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    files: Mapping[str, str]  # name in the volume's `conf/` → text
    settings: str  # digest of the files: when it is in force, nothing is to be reloaded
    contents: str  # digest of the roles and databases: when it was applied, nothing is to be made


def wish(spec: ComputeSpec, *, major: int, entrants: Entrants) -> Wish:
    names = [role.name for role in spec.roles]
    files = {
        "postgresql.conf": conf.text(spec.settings),
        "pg_hba.conf": hba.hba_text(),
        "pg_ident.conf": hba.ident_text(
            major=major, control_user=entrants.control, gateway_user=entrants.gateway, roles=names
        ),
    }
    roles = [(role.name, role.verifier) for role in spec.roles]
    databases = [(database.name, database.owner) for database in spec.databases]
    return Wish(files=files, settings=_digest(files), contents=_digest([roles, databases]))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
