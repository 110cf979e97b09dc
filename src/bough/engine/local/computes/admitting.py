"""A new role may enter a compute that runs, where the server's files name every role: before Postgres 16."""

import asyncio
from pathlib import Path

from bough.engine.local.computes import session
from bough.engine.local.isolation.accounts import Entrants
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.folder import VolumeFolder
from bough.postgres import hba


async def admit(role: str, folder: VolumeFolder, sockets: Path, entrants: Entrants) -> None:
    """Until the files are written as a whole again, with the role among all others."""
    entries = hba.entries(role, control_user=entrants.control, gateway_user=entrants.gateway)
    text = await asyncio.to_thread((folder.conf / hba.IDENT_FILE).read_text)
    if entries not in text:
        await unbroken(lambda: folder.write_conf(hba.IDENT_FILE, text + entries, folder.owner))
    async with session.opened(sockets) as ours:
        await ours.reload()
