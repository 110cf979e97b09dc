import time, pytest
from engine.homes import Home, home_on
from engine.going_back import *
from bough.engine.local.computes.living import Living

@pytest.fixture(scope="module", params=["plain","reflink"])
def settings(request):
    with home_on(request.param) as made:
        yield made

async def keep(self, endpoint):
    for l in self._folders.log(endpoint).read_text().splitlines():
        if "redo done" in l: print("   ", l[60:230])
    self._folders.log(endpoint).unlink()

async def test_x(home: Home, monkeypatch) -> None:
    monkeypatch.setattr(Living, "forget_log", keep)
    for name, load in (("inserts", "insert into accounts select g, 0, repeat('x', 84) from generate_series(1,20000) g"), ("updates", "update accounts set balance = balance + 1 where id in (select (random()*200000)::int from generate_series(1,1000))")):
        c = await home.compute()
        async with c.connect() as db:
            await db.execute("create table accounts (id int, balance int, filler text)")
            if name == "updates":
                await db.execute("insert into accounts select g, 0, repeat('x', 84) from generate_series(1,200000) g; create index on accounts (id)")
        marks = await write(c, 2)
        await take_base(c)
        async with c.connect() as db:
            start = await db.fetchval("select pg_current_wal_lsn() - '0/0'")
            while (await db.fetchval("select pg_current_wal_lsn() - '0/0'")) - start < 100e6:
                await db.execute(load)
        marks += await write(c, 2)
        for _ in range(3):
            t=time.time()
            child, origin = await begin_at(c, marks[2].points[1])
            print(f"{name:20} {time.time()-t:.2f}")
