"""Runs the ORM of SQLAlchemy at the pooled host with default settings.

Usage: `URI ADDRESS DRIVER`; prints one line of JSON. Workers transfer money between accounts with optimistic locking:
a worker repeats its transaction when another worker has changed the same account.
"""

import asyncio
import json
import random
import sys
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, selectinload
from sqlalchemy.orm.exc import StaleDataError

from journeys.clients.host_override import override_host

ACCOUNTS, WORKERS, TRANSFERS = 10, 20, 10


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "accounts"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    balance: Mapped[int]
    version: Mapped[int] = mapped_column()
    entries: Mapped[list["Entry"]] = relationship(back_populates="account")
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012  SQLAlchemy requires a dict


class Entry(Base):
    __tablename__ = "entries"
    id: Mapped[int] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(sa.ForeignKey("accounts.id"))
    amount: Mapped[int]
    details: Mapped[dict[str, Any]] = mapped_column(JSONB)
    account: Mapped[Account] = relationship(back_populates="entries")


class Abort(Exception):
    """Rolls back a transaction that had no error."""


def create_engine(uri: str, address: str, driver: str) -> AsyncEngine:
    if driver == "psycopg":
        return create_async_engine(f"{uri.replace('postgresql:', 'postgresql+psycopg:')}&hostaddr={address}")
    override_host(uri, address)
    url = urlsplit(uri)._replace(scheme="postgresql+asyncpg", query="ssl=require")
    return create_async_engine(url.geturl())


async def main(uri: str, address: str, driver: str) -> dict[str, Any]:
    engine = create_engine(uri, address, driver)
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.drop_all)
        await connection.run_sync(Base.metadata.create_all)
    async with sessions.begin() as session:
        session.add_all(Account(id=n, name=f"account {n}", balance=1000) for n in range(ACCOUNTS))
    counts = await asyncio.gather(*(run_transfers(sessions, number) for number in range(WORKERS)))
    conflicts, aborted, rolled_back_savepoints = map(sum, zip(*counts, strict=True))
    results = {
        "client": f"SQLAlchemy {sa.__version__} with {driver}, {conflicts} conflicts",
        "regretted": aborted,
        "caught": rolled_back_savepoints,
        **await read_totals(sessions),
    }
    await engine.dispose()
    return results


async def run_transfers(sessions: async_sessionmaker[AsyncSession], number: int) -> tuple[int, int, int]:
    """Returns the numbers of conflicts, aborted transactions and savepoints that were rolled back."""
    rng = random.Random(number)
    conflicts = aborted = rolled_back_savepoints = transfers = 0
    while transfers < TRANSFERS:
        try:
            async with sessions.begin() as session:
                await transfer(session, rng)
                if transfers == 3:
                    rolled_back_savepoints += await fail_in_savepoint(session)
                if transfers % 5 == 4:
                    raise Abort
        except StaleDataError:
            conflicts += 1
            continue
        except Abort:
            aborted += 1
        transfers += 1
    return conflicts, aborted, rolled_back_savepoints


async def transfer(session: AsyncSession, rng: random.Random) -> None:
    payer_id, payee_id = rng.sample(range(ACCOUNTS), 2)
    payer, payee = await session.get_one(Account, payer_id), await session.get_one(Account, payee_id)
    amount = rng.randrange(1, 50)
    for account, change in ((payer, -amount), (payee, amount)):
        account.balance += change
        session.add(Entry(account=account, amount=change, details={"with": payer.name, "amount": amount}))
    await session.flush()


async def fail_in_savepoint(session: AsyncSession) -> bool:
    try:
        async with session.begin_nested():
            session.add(Entry(account_id=1000, amount=0, details={}))
    except IntegrityError:
        return True
    return False


async def read_totals(sessions: async_sessionmaker[AsyncSession]) -> dict[str, Any]:
    async with sessions() as session:
        rows = await session.scalars(sa.select(Account).options(selectinload(Account.entries)))
        accounts = rows.all()
        return {
            "accounts": len(accounts),
            "total": sum(account.balance for account in accounts),
            "balanced": sum(
                account.balance == 1000 + sum(entry.amount for entry in account.entries) for account in accounts
            ),
            "entries": await session.scalar(sa.select(sa.func.count(Entry.id))),
            "versions": sum(account.version for account in accounts),
        }


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
