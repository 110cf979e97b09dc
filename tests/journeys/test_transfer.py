"""A project moves to another organization while clients use it. Their sessions are not interrupted."""

from journeys.served_project import ServedProject, fetch_value


async def test_connections_survive_a_transfer_and_new_ones_come_in(served_project: ServedProject) -> None:
    project_path = served_project.project_path
    team_org_id = served_project.api.post("/bough/organizations", json={"name": "team"}).raise_for_status().json()["id"]
    own_org_id = served_project.creation_response["project"]["org_id"]
    session = await served_project.connect()
    pooled_endpoint_id = f"{served_project.endpoint_id}-pooler"
    pooled = await served_project.connect_to(served_project.uri.replace(served_project.endpoint_id, pooled_endpoint_id))
    served_project.sessions.append(pooled)
    await session.execute("create table kept (note text)")
    for client in (session, pooled):
        await client.execute("begin")
        await client.execute("insert into kept values ('before')")
    body = {"destination_org_id": team_org_id, "project_ids": [served_project.creation_response["project"]["id"]]}
    served_project.api.post(f"/organizations/{own_org_id}/projects/transfer", json=body).raise_for_status()
    assert served_project.api.get(project_path).json()["project"]["org_id"] == team_org_id
    for client in (session, pooled):
        await client.execute("insert into kept values ('after')")
        await client.execute("commit")
    assert await served_project.fetch_value("select count(*) from kept") == 4
    request_id = served_project.api.post(f"{project_path}/transfer_requests").raise_for_status().json()["id"]
    served_project.api.put(
        f"{project_path}/transfer_requests/{request_id}", json={"org_id": own_org_id}
    ).raise_for_status()
    assert await fetch_value(session, "select count(*) from kept") == 4
    served_project.suspend()
    assert await served_project.fetch_value("select count(*) from kept") == 4, "the compute wakes for its current owner"
