"""Roles: how they are shown."""

from datetime import datetime

from bough.api.shapes import View
from bough.domain.role import Role


class RoleView(View):
    branch_id: str
    name: str
    password: str | None
    protected: bool
    authentication_method: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, role: Role, password: str | None = None) -> "RoleView":
        """With its password only in the answer that made or reset it."""
        return cls(
            branch_id=role.branch_id,
            name=role.name,
            password=password,
            protected=role.is_protected,
            authentication_method="password",
            created_at=role.created_at,
            updated_at=role.updated_at,
        )
