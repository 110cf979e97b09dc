"""Where an instant database can be claimed. Its id is in the link, and as good as its password: no stranger sees it."""

from bough.access.vault import Vault
from bough.config import Settings
from bough.control.platform import mail
from bough.ids import InstantId, ProjectId
from bough.store.store import Rows


def sealing_purpose(digest: str) -> str:
    """Of the sealed id."""
    return f"id of the instant database {digest}"


def build_claim_url(settings: Settings, instant_id: InstantId) -> str:
    return mail.page_url(settings, f"/claim/{instant_id}")


async def find_claim_url(rows: Rows, vault: Vault, settings: Settings, project_id: ProjectId) -> str | None:
    """Where the project can be claimed; None when it is somebody's."""
    found = await rows.instant_databases.get_by_project(project_id)
    if found is None or found.claimed_at is not None:
        return None
    return build_claim_url(settings, InstantId(vault.open(found.sealed_id, sealing_purpose(found.digest))))
