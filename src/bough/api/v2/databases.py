"""Databases: how they are shown."""

from datetime import datetime

from bough.api.shapes import View
from bough.domain.database import Database


class DatabaseView(View):
    id: int
    branch_id: str
    name: str
    owner_name: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, database: Database) -> "DatabaseView":
        return cls(
            id=database.id,
            branch_id=database.branch_id,
            name=database.name,
            owner_name=database.owner_name,
            created_at=database.created_at,
            updated_at=database.updated_at,
        )
