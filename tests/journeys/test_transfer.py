"""A project changes its owner while somebody works in it: they notice nothing."""

from journeys.served_project import ServedProject, fetch_value


async def test_connections_survive_a_transfer_and_new_ones_come_in(served_project: ServedProject) -> None:
    project = f"/projects/{served_project.creation_response['project']['id']}"
    team = served_project.api.post("/bough/organizations", json={"name": "team"}).raise_for_status().json()["id"]
    own = served_project.creation_response["project"]["org_id"]
    session, pooled = (
        await served_project.connect(),
        await served_project.connect_to(
            served_project.uri.replace(served_project.endpoint_id, f"{served_project.endpoint_id}-pooler")
        ),
    )
    served_project.sessions.append(pooled)
    await session.execute("create table kept (note text)")
    for each in (session, pooled):
        await each.execute("begin")
        await each.execute("insert into kept values ('before')")
    body = {"destination_org_id": team, "project_ids": [served_project.creation_response["project"]["id"]]}
    served_project.api.post(f"/organizations/{own}/projects/transfer", json=body).raise_for_status()
    assert served_project.api.get(project).json()["project"]["org_id"] == team
    for each in (session, pooled):
        await each.execute("insert into kept values ('after')")
        await each.execute("commit")
    assert await served_project.fetch_value("select count(*) from kept") == 4
    offer = served_project.api.post(f"{project}/transfer_requests").raise_for_status().json()["id"]
    served_project.api.put(f"{project}/transfer_requests/{offer}", json={"org_id": own}).raise_for_status()
    assert await fetch_value(session, "select count(*) from kept") == 4
    served_project.suspend()
    assert (
        await served_project.fetch_value("select count(*) from kept") == 4
    )  # it is woken in the organization it came to
