"""Constructors of the columns and indexes that the tables use."""

import sqlalchemy as sa

from bough.store.types import Json, UtcDateTime

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def text(
    name: str, *rest: sa.ForeignKey, nullable: bool = False, unique: bool = False, primary_key: bool = False
) -> sa.Column[str]:
    return sa.Column(name, sa.Text, *rest, nullable=nullable, unique=unique or None, primary_key=primary_key)


def timestamp(name: str, *, nullable: bool = False, primary_key: bool = False) -> sa.Column[object]:
    return sa.Column(name, UtcDateTime, nullable=nullable, primary_key=primary_key)


def json(name: str) -> sa.Column[object]:
    return sa.Column(name, Json, nullable=False)


def boolean(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False)


def partial_index(name: str, where: str, *columns: str, unique: bool = False) -> sa.Index:
    return sa.Index(name, *columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
