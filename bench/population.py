"""Fills a store with projects and all the rows that creating them would have written.

The rows are inserted directly. The endpoints are suspended.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from bough import clock
from bough.config import Settings
from bough.control import defaults
from bough.domain import branch, database, role
from bough.domain.branch import BranchState
from bough.domain.endpoint import EndpointState, EndpointType
from bough.domain.operation import STORED_KINDS, OperationKind, OperationStatus
from bough.domain.usage import EndpointUsage
from bough.domain.user import OPERATOR
from bough.ids import BranchId, EndpointId, LineageId, OperationId, ProjectId, VolumeId
from bough.operations.actions.create_root_branch import CreateRootBranch
from bough.operations.actions.start_compute import StartCompute
from bough.postgres.scram import scram_verifier
from bough.store.row_mapping import to_columns
from bough.store.tables import metadata

Row = dict[str, Any]
ORGANIZATION = "org-operator"
CREATION_INTERVAL = timedelta(seconds=37)  # between two creations
INSTALL = "embedded-17"
_STEPS = {OperationKind.CREATE_ROOT_BRANCH: CreateRootBranch.steps, OperationKind.START_COMPUTE: StartCompute.steps}


def insert_projects(settings: Settings, count: int) -> None:
    """Add projects to the store of a home, older than all existing ones."""
    rows: dict[str, list[Row]] = defaultdict(list)
    verifier = scram_verifier(secrets.token_hex(16))
    oldest = clock.now() - timedelta(days=1) - count * CREATION_INTERVAL
    for number in range(count):
        for name, row in _project(number, oldest + number * CREATION_INTERVAL, verifier):
            rows[name].append(row)
    engine = sa.create_engine(f"sqlite:///{settings.store_file}", connect_args={"timeout": 60})
    with engine.begin() as connection:
        for table in metadata.sorted_tables:
            if rows[table.name]:
                connection.execute(sa.insert(table), rows[table.name])
    with engine.connect() as connection:  # readers must find the rows in the file, not in its WAL
        connection.exec_driver_sql("pragma wal_checkpoint(truncate)")
    engine.dispose()


def _project(number: int, at: datetime, verifier: str) -> Iterator[tuple[str, Row]]:
    """Yield tables and rows, parents before children."""
    project_id, volume, lineage, root = ProjectId.new(), VolumeId.new(), LineageId.new(), BranchId.new()
    name = f"customer {number} / {project_id}"
    times: Row = {"created_at": at, "updated_at": at}
    of_project: Row = {"project_id": project_id, "created_at": at}
    yield "projects", _project_row(project_id, name) | times
    yield "volumes", of_project | {"id": volume}
    yield "lineages", of_project | {"id": lineage, "volume_id": volume}
    yield "branches", _branch_row(root, volume, number) | of_project | times
    yield "branch_lineages", {"branch_id": root, "position": 0, "lineage_id": lineage}
    yield "roles", _role_row(root, verifier) | times
    yield (
        "databases",
        {"branch_id": root, "name": database.DEFAULT_NAME, "owner_name": role.DEFAULT_NAME} | times,
    )
    endpoint = EndpointId.new()
    yield "endpoints", _endpoint_row(endpoint, root, at) | of_project | times
    yield (
        "usage",
        to_columns(EndpointUsage(endpoint_id=endpoint, project_id=project_id, bytes_out=number, active_seconds=300.0)),
    )
    for kind, target in ((OperationKind.CREATE_ROOT_BRANCH, None), (OperationKind.START_COMPUTE, endpoint)):
        yield "operations", _operation_row(kind, root, target, at) | of_project | times


def _project_row(project_id: ProjectId, name: str) -> Row:
    return {
        "id": project_id,
        "org_id": ORGANIZATION,
        "created_by": OPERATOR,
        "name": name,
        "search_key": f"{name}\n{project_id}".casefold(),
        "region_id": "aws-us-east-2",
        "pg_version": 17,
        "install": INSTALL,
        "provisioner": defaults.PROVISIONER,
        "settings": defaults.PROJECT_SETTINGS,
        "default_endpoint_settings": {
            "autoscaling_limit_min_cu": defaults.MIN_CU,
            "autoscaling_limit_max_cu": defaults.MAX_CU,
            "suspend_timeout_seconds": defaults.SUSPEND_TIMEOUT_SECONDS,
        },
        "store_passwords": True,
        "history_retention_seconds": defaults.HISTORY_RETENTION_SECONDS,
        "creation_source": defaults.CREATION_SOURCE,
    }


def _branch_row(branch_id: BranchId, volume: VolumeId, number: int) -> Row:
    return {
        "id": branch_id,
        "name": branch.DEFAULT_NAME,
        "search_key": f"{branch.DEFAULT_NAME}\n{branch_id}".casefold(),
        "state": BranchState.READY,
        "state_changed_at": clock.now(),
        "volume_id": volume,
        "is_default": True,
        "is_protected": False,
        "creation_source": defaults.CREATION_SOURCE,
        "init_source": branch.PARENT_DATA,
        "annotations": {},
        "logical_size": 7_500_000 + number * 8192,
        "created_by": OPERATOR,
    }


def _role_row(branch_id: BranchId, verifier: str) -> Row:
    return {
        "branch_id": branch_id,
        "name": role.DEFAULT_NAME,
        "verifier": verifier,
        "sealed_password": secrets.token_urlsafe(56),
        "is_protected": False,
    }


def _endpoint_row(endpoint_id: EndpointId, branch_id: BranchId, at: datetime) -> Row:
    return {
        "id": endpoint_id,
        "branch_id": branch_id,
        "type": EndpointType.READ_WRITE,
        "state": EndpointState.IDLE,
        "min_cu": defaults.MIN_CU,
        "max_cu": defaults.MAX_CU,
        "settings": {},
        "pooler_enabled": False,
        "disabled": False,
        "passwordless_access": True,
        "suspend_timeout_seconds": defaults.SUSPEND_TIMEOUT_SECONDS,
        "provisioner": defaults.PROVISIONER,
        "creation_source": defaults.CREATION_SOURCE,
        "last_active": at,
        "started_at": at,
        "suspended_at": at,
    }


def _operation_row(kind: OperationKind, branch_id: BranchId, endpoint: EndpointId | None, at: datetime) -> Row:
    steps = _STEPS[kind]
    return {
        "id": OperationId.new(),
        "branch_id": branch_id,
        "endpoint_id": endpoint,
        "action": STORED_KINDS[kind].action,
        "status": OperationStatus.FINISHED,
        "parameters": {},
        "step": steps[-1],
        "steps_done": steps,
        "undoing": False,
        "failures": 0,
        "due_at": at,
        "fence": 1,
        "request_id": "bench",
        "started_at": at,
        "ended_at": at,
    }
