"""Regions. The operator lists them, and each project has one."""

from typing import Annotated

from pydantic import BaseModel, Field


class Region(BaseModel, frozen=True, extra="forbid"):
    id: Annotated[str, Field(pattern=r"^[a-z0-9]+-[a-z0-9-]{1,40}$")]
    name: str
    latitude: str = "0"
    longitude: str = "0"

    @property
    def cloud(self) -> str:
        return self.id.split("-", 1)[0]

    @property
    def location(self) -> str:
        return self.id.split("-", 1)[1]


DEFAULT_REGIONS = (Region(id="aws-us-east-2", name="US East 2 (Ohio)", latitude="40.06", longitude="-82.99"),)
