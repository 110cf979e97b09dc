"""Column types that behave the same in SQLite and PostgreSQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.types import TypeDecorator, TypeEngine

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Json = sa.JSON().with_variant(JSONB(), "postgresql")
BigIntegerKey = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite numbers only `INTEGER` keys by itself


class UtcDateTime(TypeDecorator[datetime]):
    """A timestamp in UTC: `timestamptz` in PostgreSQL, microseconds since 1970 in SQLite."""

    impl = sa.BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(sa.BigInteger())

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        if value is None or dialect.name == "postgresql":
            return value
        return (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        if value is None or isinstance(value, datetime):
            return value
        return _EPOCH + timedelta(microseconds=value)


class Microseconds(TypeDecorator[datetime]):
    """A timestamp in UTC as microseconds since 1970, also in PostgreSQL: for rows that are read in thousands.

    Select it as `sa.type_coerce(column, sa.BigInteger)` to get the number.
    """

    impl = sa.BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> int | None:
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else _EPOCH + timedelta(microseconds=value)


class SpaceSeparated(TypeDecorator[tuple[str, ...]]):
    """A short tuple of words without spaces, stored as one text."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: sa.Dialect) -> str:
        return " ".join(value or ())

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> tuple[str, ...]:
        return tuple(value.split()) if value else ()
