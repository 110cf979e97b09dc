"""Follows the Postgres builds that the operator selected with `bough postgres update` or `rollback`.

Indexes that a new build may sort differently are looked for while their computes run, and so are the extensions that
they have.
"""

from bough.engine.port import BuildsEngine


class FollowPostgresBuilds:
    interval = 2.0

    def __init__(self, engine: BuildsEngine) -> None:
        self._engine = engine

    async def run(self) -> str:
        followed = await self._engine.follow_builds()
        await self._engine.check_collations()
        await self._engine.check_extensions()
        return followed
