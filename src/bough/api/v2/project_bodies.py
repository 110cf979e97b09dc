"""Request bodies to create and change projects."""

from typing import Annotated

from pydantic import Field, StrictInt

from bough.api.schemas import Body, ComputeUnits, Flag, IdText, Name
from bough.api.v2.project_settings import DefaultEndpointSettings, ProjectSettings
from bough.control.projects.plan import ProjectChange, RequestedProject
from bough.domain.project import MAX_HISTORY_RETENTION_SECONDS
from bough.ids import OrganizationId

RetentionSeconds = Annotated[StrictInt, Field(ge=0, le=MAX_HISTORY_RETENTION_SECONDS)]


class FirstBranchBody(Body):
    name: Name | None = None
    role_name: str | None = None
    database_name: str | None = None
    annotations: dict[str, str] = Field(default_factory=dict)


class NewProjectBody(Body):
    settings: ProjectSettings = ProjectSettings()
    name: Name | None = None
    branch: FirstBranchBody = FirstBranchBody()
    autoscaling_limit_min_cu: ComputeUnits | None = None
    autoscaling_limit_max_cu: ComputeUnits | None = None
    provisioner: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    region_id: str | None = None
    default_endpoint_settings: DefaultEndpointSettings = DefaultEndpointSettings()
    pg_version: Annotated[StrictInt, Field(ge=14, le=18)] | None = None
    store_passwords: Flag = True
    history_retention_seconds: RetentionSeconds | None = None
    org_id: IdText | None = None


class ProjectCreate(Body):
    project: NewProjectBody

    def to_requested_project(self) -> RequestedProject:
        body = self.project
        limits = {"autoscaling_limit_min_cu", "autoscaling_limit_max_cu"}
        return RequestedProject(
            name=body.name,
            org_id=OrganizationId(body.org_id) if body.org_id else None,
            region_id=body.region_id,
            pg_version=body.pg_version,
            provisioner=body.provisioner,
            store_passwords=body.store_passwords,
            history_retention_seconds=body.history_retention_seconds,
            settings=body.settings.dump_provided(),
            default_endpoint_settings={
                **body.model_dump(include=limits, exclude_none=True),
                **body.default_endpoint_settings.dump_provided(),
            },
            branch_name=body.branch.name,
            role_name=body.branch.role_name,
            database_name=body.branch.database_name,
            annotations=body.branch.annotations,
        )


class ChangedProjectBody(Body):
    settings: ProjectSettings = ProjectSettings()
    name: Name | None = None
    default_endpoint_settings: DefaultEndpointSettings | None = None
    history_retention_seconds: RetentionSeconds | None = None


class ProjectUpdate(Body):
    project: ChangedProjectBody

    def to_project_change(self) -> ProjectChange:
        body = self.project
        endpoints = body.default_endpoint_settings
        return ProjectChange(
            name=body.name,
            settings=body.settings.dump_provided(),
            default_endpoint_settings=endpoints.dump_provided() if endpoints else None,
            history_retention_seconds=body.history_retention_seconds,
        )
