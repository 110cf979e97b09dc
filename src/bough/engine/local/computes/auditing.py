"""Adds to the spec of an audited compute what its build can do: pgAudit, or else `log_statement`."""

from dataclasses import replace

from bough.engine.local.folders import Folders
from bough.engine.local.installs.installs import Install
from bough.engine.spec import ComputeSpec
from bough.postgres import preload_libraries, statement_audit


def preload(spec: ComputeSpec, install: Install) -> ComputeSpec:
    """Preload pgAudit, whatever libraries the tenant chose."""
    if spec.audit_level is None or not _can_use_pgaudit(spec, install):
        return spec
    libraries = dict.fromkeys((*preload_libraries.parse(spec.settings), statement_audit.LIBRARY))
    return replace(spec, settings={**spec.settings, **preload_libraries.build_settings(libraries)})


def complete(spec: ComputeSpec, install: Install, folders: Folders) -> ComputeSpec:
    """Add the settings of the level. The libraries of the spec are those that the compute starts with."""
    if spec.audit_level is None:
        return spec
    settings = statement_audit.build_settings(
        spec.settings,
        spec.audit_level,
        str(folders.audit_folder(spec.endpoint_id)),
        has_pgaudit=uses_pgaudit(spec, install),
    )
    return replace(spec, settings=settings)


def uses_pgaudit(spec: ComputeSpec, install: Install) -> bool:
    return (
        spec.audit_level is not None
        and statement_audit.LIBRARY in preload_libraries.parse(spec.settings)
        and _can_use_pgaudit(spec, install)
    )


def _can_use_pgaudit(spec: ComputeSpec, install: Install) -> bool:
    """Return whether no tenant can change its parameters. A server that cannot write cannot revoke that right."""
    if spec.primary is not None or spec.is_read_only:
        return False
    if not (install.libraries / f"{statement_audit.LIBRARY}.so").is_file():
        return False
    scripts = install.extensions.glob(f"{statement_audit.LIBRARY}--*.sql")
    return statement_audit.is_guarded({path.name: path.read_text(errors="replace") for path in scripts})
