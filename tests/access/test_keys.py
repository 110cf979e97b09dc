"""API keys and sealed secrets."""

import stat
from pathlib import Path

import pytest

from bough.access import vault
from bough.access.keys import TOKEN_PREFIX, Keys
from bough.access.principal import Principal, build_memberships
from bough.access.vault import Vault, load_or_create_secret
from bough.domain.api_key import KeyKind
from bough.domain.organization import MemberRole, Organization
from bough.domain.rights import OrgRight
from bough.domain.user import OPERATOR
from bough.errors import Denied, NotFound, PreconditionFailed, Unauthenticated
from bough.ids import OrganizationId, UserId
from bough.store.sqlite import SqliteStore
from support.platform import Platform
from support.stores import NOON, ORGANIZATION


def test_tokens_carry_256_random_bits_and_are_kept_as_hmacs() -> None:
    keys = Keys(b"secret")
    tokens = {keys.generate().token for _ in range(100)}
    assert len(tokens) == 100
    new = keys.generate()
    assert new.token.startswith(TOKEN_PREFIX)
    assert 62 ** (len(new.token) - len(new.prefix)) > 2**256
    assert new.token[len(new.prefix) :] not in new.prefix + new.digest
    assert keys.from_token(new.token) == new
    assert Keys(b"another").from_token(new.token).digest != new.digest


async def test_only_the_whole_token_is_a_key(platform: Platform) -> None:
    async with platform.store.read() as rows:
        found = await platform.services.keys.authenticate(rows, platform.key)
        assert (found.kind, found.user_id) == (KeyKind.PERSONAL, OPERATOR)
        for wrong in (platform.key[:-1], platform.key + "x", platform.key[:22], "", "bough_key_", "\ud800"):
            with pytest.raises(Unauthenticated):
                await platform.services.keys.authenticate(rows, wrong)


def _organization(org_id: OrganizationId, personal_for: UserId | None = None) -> Organization:
    return Organization(
        id=org_id,
        name=org_id,
        handle=org_id,
        plan="free",
        personal_for=personal_for,
        created_at=NOON,
        updated_at=NOON,
    )


def _principal(kind: KeyKind, *memberships: tuple[Organization, MemberRole | None]) -> Principal:
    return Principal(kind=kind, key_id=1, name="ada", user_id=OPERATOR, memberships=build_memberships(memberships))


def test_a_caller_acts_in_its_own_organization_unless_it_names_another() -> None:
    team, own = _organization(OrganizationId("org-team")), _organization(ORGANIZATION, personal_for=OPERATOR)
    person = _principal(KeyKind.PERSONAL, (team, MemberRole.VIEWER), (own, MemberRole.ADMIN))
    assert person.default_organization() == own
    assert person.organization(team.id, right=OrgRight.READ) == team
    assert _principal(KeyKind.ORGANIZATION, (team, None)).default_organization() == team
    with pytest.raises(NotFound, match="organization"):
        person.organization(OrganizationId("org-foreign"), right=OrgRight.READ)
    with pytest.raises(Denied, match="create projects"):
        person.organization(team.id, right=OrgRight.CREATE_PROJECTS)


def test_what_is_about_a_person_is_not_for_keys_of_organizations() -> None:
    with pytest.raises(NotFound, match="not allowed for organization API keys"):
        _principal(KeyKind.ORGANIZATION, (_organization(ORGANIZATION), None)).check_is_person()


def test_what_is_sealed_opens_for_its_purpose_and_key_only() -> None:
    safe = Vault(b"k" * 32)
    sealed = safe.seal("hunter2", "password of a")
    assert "hunter2" not in sealed
    assert sealed != safe.seal("hunter2", "password of a")
    assert safe.open(sealed, "password of a") == "hunter2"
    for other, purpose in ((safe, "password of b"), (Vault(b"x" * 32), "password of a")):
        with pytest.raises(PreconditionFailed, match="keys/"):
            other.open(sealed, purpose)


def test_a_secret_file_is_made_once_and_is_ours_alone(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    first = load_or_create_secret(path)
    assert load_or_create_secret(path) == first
    assert len(first) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]
    assert vault.load_or_create_secret(tmp_path / "given", b"as given") == b"as given"


async def test_no_token_is_in_the_store(platform: Platform) -> None:
    answer = await platform.client.post("/api/v2/api_keys", json={"key_name": "ci"})
    token = answer.json()["key"]
    created = await platform.create_project()
    password = created["roles"][0]["password"]
    assert isinstance(platform.store, SqliteStore)
    for file in platform.settings.home.glob("store.db*"):
        content = file.read_bytes()
        assert token.encode() not in content
        assert password.encode() not in content
        assert platform.key.encode() not in content
