"""Links to claim an instant database. The link contains the database's id, which is as secret as its password."""

from bough.access.vault import Vault
from bough.config import Settings
from bough.control.platform import mail
from bough.ids import InstantId, ProjectId
from bough.store.store import Rows


def sealing_purpose(digest: str) -> str:
    """Return the vault purpose of the sealed id."""
    return f"id of the instant database {digest}"


def build_claim_url(settings: Settings, instant_id: InstantId) -> str:
    return mail.page_url(settings, f"/claim/{instant_id}")


async def find_claim_url(rows: Rows, vault: Vault, settings: Settings, project_id: ProjectId) -> str | None:
    """Return the claim URL of the project; None if it is claimed or not an instant database."""
    found = await rows.instant_databases.get_by_project(project_id)
    if found is None or found.claimed_at is not None:
        return None
    return build_claim_url(settings, InstantId(vault.open(found.sealed_id, sealing_purpose(found.digest))))
