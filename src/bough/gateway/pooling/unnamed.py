"""The prepared statement without a name, of one client.

It is known by what Postgres answered, in order: what is under way may fail, or be skipped because of an error before.
"""

from bough.gateway.pooling.statements import PreparedStatement


class UnnamedStatement:
    __slots__ = ("statement",)

    def __init__(self) -> None:
        self.statement: PreparedStatement | None = (
            None  # one that has not come whole has no body, and is not made again
        )
