"""Every row of the store that belongs to a project, to check that a rejected request changed nothing."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa

from bough.ids import ProjectId
from bough.store.queries import Queries
from bough.store.store import Store
from bough.store.tables import metadata


class _ProjectRows(Queries):
    async def read(self, project_id: ProjectId) -> dict[str, list[dict[str, Any]]]:
        found = {table: await self._all(statement, id=project_id) for table, statement in _statements().items()}
        return {table: sorted(map(dict, rows), key=repr) for table, rows in found.items()}


async def read_project_rows(store: Store, project_id: ProjectId) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of one project, by table, in a stable order."""
    async with store.read() as rows:
        return await _ProjectRows(rows.projects._connection).read(project_id)


@cache
def _statements() -> Mapping[str, sa.Select[Any]]:
    """Return one statement per table with the column `project_id` or `branch_id`, and one for the project itself."""
    project_id: sa.BindParameter[str] = sa.bindparam("id")
    projects, branches = metadata.tables["projects"], metadata.tables["branches"]
    of_project = sa.select(branches.c.id).where(branches.c.project_id == project_id)
    statements = {"projects": sa.select(projects).where(projects.c.id == project_id)}
    for name, table in metadata.tables.items():
        if "project_id" in table.c:
            statements[name] = sa.select(table).where(table.c.project_id == project_id)
        elif "branch_id" in table.c:
            statements[name] = sa.select(table).where(table.c.branch_id.in_(of_project))
    return statements
