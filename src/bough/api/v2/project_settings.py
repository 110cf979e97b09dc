"""Request bodies for the settings of a project."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StrictInt, model_validator

from bough.api.schemas import Body, ComputeUnits, Count, Flag
from bough.domain import allowed_ips, audit_level, maintenance_window
from bough.errors import Invalid

# Clients send entries of the list of available libraries, which may be several names with commas.
_LIBRARIES = r"^[A-Za-z0-9_-]{1,63}( *, *[A-Za-z0-9_-]{1,63})*$"
_SETTING_NAME = r"^[A-Za-z_][A-Za-z0-9_.]{0,62}$"


def _drop_duplicates(days: list[int]) -> list[int]:
    return sorted(set(days))


def _check_hipaa(value: bool | None) -> bool | None:
    if value:
        raise ValueError("this installation makes no promise about HIPAA; see audit_log_level for an audit log")
    return value


class Quota(Body):
    active_time_seconds: Count | None = None
    compute_time_seconds: Count | None = None
    written_data_bytes: Count | None = None
    data_transfer_bytes: Count | None = None
    logical_size_bytes: Count | None = None


class AllowedIps(Body):
    ips: Annotated[list[Annotated[str, AfterValidator(allowed_ips.check_entry)]], Field(max_length=1000)] | None = None
    protected_branches_only: Flag | None = None


class MaintenanceWindow(Body):
    weekdays: Annotated[
        list[Annotated[StrictInt, Field(ge=1, le=7)]], Field(max_length=100), AfterValidator(_drop_duplicates)
    ]
    start_time: str
    end_time: str

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        try:
            maintenance_window.RestartWindow.parse(self.weekdays, self.start_time, self.end_time)
        except Invalid as error:
            raise ValueError(error.public_message) from None
        return self


class PreloadLibraries(Body):
    use_defaults: Flag | None = None
    enabled_libraries: (
        Annotated[list[Annotated[str, Field(pattern=_LIBRARIES, max_length=1000)]], Field(max_length=100)] | None
    ) = None


class ProjectSettings(Body):
    quota: Quota | None = None
    allowed_ips: AllowedIps | None = None
    enable_logical_replication: Flag | None = None
    maintenance_window: MaintenanceWindow | None = None
    block_public_connections: Flag | None = None
    block_vpc_connections: Flag | None = None
    audit_log_level: Literal["base", "extended", "full"] | None = None
    hipaa: Annotated[Flag | None, AfterValidator(_check_hipaa)] = None
    preload_libraries: PreloadLibraries | None = None

    def dump_provided(self) -> dict[str, Any]:
        """A level that is null removes the one before; other fields that are null count as omitted."""
        removed = {audit_level.SETTINGS_KEY} & self.model_fields_set if self.audit_log_level is None else set()
        return {**super().dump_provided(), **dict.fromkeys(removed)}


SettingNames = dict[Annotated[str, Field(pattern=_SETTING_NAME)], Annotated[str, Field(max_length=2000)]]
PoolerSettings = dict[str, str]  # validated by control


class DefaultEndpointSettings(Body):
    pg_settings: SettingNames | None = None
    pgbouncer_settings: PoolerSettings | None = None
    autoscaling_limit_min_cu: ComputeUnits | None = None
    autoscaling_limit_max_cu: ComputeUnits | None = None
    suspend_timeout_seconds: Annotated[StrictInt, Field(ge=-1, le=604800)] | None = None
