"""A project changes its owner while somebody works in it: they notice nothing."""

from journeys.served import Served, value


async def test_connections_survive_a_transfer_and_new_ones_come_in(one: Served) -> None:
    project = f"/projects/{one.made['project']['id']}"
    team = one.api.post("/bough/organizations", json={"name": "team"}).raise_for_status().json()["id"]
    own = one.made["project"]["org_id"]
    session, pooled = await one.connect(), await one.entered(one.uri.replace(one.endpoint, f"{one.endpoint}-pooler"))
    one.sessions.append(pooled)
    await session.execute("create table kept (note text)")
    for each in (session, pooled):
        await each.execute("begin")
        await each.execute("insert into kept values ('before')")
    body = {"destination_org_id": team, "project_ids": [one.made["project"]["id"]]}
    one.api.post(f"/organizations/{own}/projects/transfer", json=body).raise_for_status()
    assert one.api.get(project).json()["project"]["org_id"] == team
    for each in (session, pooled):
        await each.execute("insert into kept values ('after')")
        await each.execute("commit")
    assert await one.value("select count(*) from kept") == 4
    offer = one.api.post(f"{project}/transfer_requests").raise_for_status().json()["id"]
    one.api.put(f"{project}/transfer_requests/{offer}", json={"org_id": own}).raise_for_status()
    assert await value(session, "select count(*) from kept") == 4
    one.suspend()
    assert await one.value("select count(*) from kept") == 4  # it is woken in the organization it came to
