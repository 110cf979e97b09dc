"""Personal API keys: the token is shown once, lists omit it, and revoked keys stop working."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from bough import clock
from support.api_app import ApiApp
from support.api_client import Caller, Json


async def _made(caller: Caller, name: str = "laptop") -> Json:
    response = await caller.client.post("/api_keys", json={"key_name": name})
    assert response.status_code == 200, response.text
    created: Json = response.json()
    return created


async def _listed(caller: Caller) -> list[Json]:
    response = await caller.client.get("/api_keys")
    assert isinstance(response.json(), list)
    keys: list[Json] = response.json()
    return keys


async def test_a_new_key_works_and_says_who_made_it(api_app: ApiApp, caller: Caller) -> None:
    created = await _made(caller)
    assert created["name"] == "laptop"
    assert created["created_by"] == caller.user.id
    assert created["key"].startswith("bough_key_")
    async with api_app.client(created["key"]) as client:
        assert (await client.get("/users/me")).json()["id"] == caller.user.id


async def test_lists_show_everything_but_the_token(caller: Caller) -> None:
    created = await _made(caller)
    response = await caller.client.get("/api_keys")
    assert created["key"] not in response.text
    assert "bough_key_" not in response.text
    own, new = response.json()
    assert (new["id"], new["name"]) == (created["id"], "laptop")
    assert new["created_by"] == {"id": caller.user.id, "name": "Ada", "image": ""}
    assert "last_used_at" not in new
    assert own["id"] < new["id"]


async def test_the_store_has_a_digest_and_no_token(api_app: ApiApp, caller: Caller) -> None:
    created = await _made(caller)
    async with api_app.platform.store.read() as rows:
        kept = await rows.api_keys.get_by_prefix(created["key"][:22])
    assert kept is not None
    assert created["key"] not in repr(kept)
    assert created["key"][22:] not in repr(kept)
    assert len(kept.digest) == 64


async def test_the_last_use_is_known_at_once_and_kept(
    api_app: ApiApp, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await _made(caller)
    moment = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    with monkeypatch.context() as later:
        later.setattr(clock, "now", lambda: moment)
        async with api_app.client(created["key"], address="192.0.2.44") as client:
            await client.get("/auth")
    used = (await _listed(caller))[-1]
    assert datetime.fromisoformat(used["last_used_at"]) == moment
    assert used["last_used_from_addr"] == "192.0.2.44"
    await api_app.services.key_usage.flush(api_app.platform.store)
    assert (await _listed(caller))[-1] == used
    revoked = (await caller.client.delete(f"/api_keys/{created['id']}")).json()
    assert (revoked["last_used_at"], revoked["last_used_from_addr"]) == (used["last_used_at"], "192.0.2.44")


async def test_a_revoked_key_is_gone_from_the_list(caller: Caller) -> None:
    created = await _made(caller)
    revoked = (await caller.client.delete(f"/api_keys/{created['id']}")).json()
    assert (revoked["id"], revoked["name"], revoked["revoked"]) == (created["id"], "laptop", True)
    assert created["id"] not in [key["id"] for key in await _listed(caller)]
    again = await caller.client.delete(f"/api_keys/{created['id']}")
    assert again.status_code == 404


async def test_ids_are_never_used_again(caller: Caller) -> None:
    first = await _made(caller)
    await caller.client.delete(f"/api_keys/{first['id']}")
    assert (await _made(caller))["id"] > first["id"]


async def test_nobody_sees_or_revokes_the_key_of_another(caller: Caller, stranger: Caller) -> None:
    created = await _made(caller)
    assert created["id"] not in [key["id"] for key in await _listed(stranger)]
    theirs = await stranger.client.delete(f"/api_keys/{created['id']}")
    absent = await stranger.client.delete("/api_keys/999999999")
    assert (theirs.status_code, theirs.json()["message"]) == (404, absent.json()["message"])
    assert created["id"] in [key["id"] for key in await _listed(caller)]


@pytest.mark.parametrize("name", ["", "   ", "x" * 65, 7, None, "a\0b", "\ud800"])
async def test_a_name_that_will_not_do_is_refused(caller: Caller, name: object) -> None:
    body = json.dumps({"key_name": name})
    response = await caller.client.post("/api_keys", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert len(await _listed(caller)) == 1


@pytest.mark.parametrize("name", ["x" * 64, "ключ 🗝", "a"])
async def test_other_names_will(caller: Caller, name: str) -> None:
    assert (await _made(caller, name))["name"] == name


@pytest.mark.parametrize("key_id", ["0", "-1", "9223372036854775807"])
async def test_a_key_that_is_not_there(caller: Caller, key_id: str) -> None:
    assert (await caller.client.delete(f"/api_keys/{key_id}")).status_code == 404


@pytest.mark.parametrize("key_id", ["abc", "9223372036854775808", "1.5", "1e3", "9" * 400])
async def test_a_key_id_that_is_none(caller: Caller, key_id: str) -> None:
    assert (await caller.client.delete(f"/api_keys/{key_id}")).status_code == 400


async def test_keys_are_made_in_the_order_of_time(caller: Caller) -> None:
    created = await _made(caller)
    age = clock.now() - datetime.fromisoformat(created["created_at"])
    assert timedelta(0) <= age < timedelta(minutes=5)
