"""A new role may enter a compute that runs, where the server's files name every role: before Postgres 16."""

import asyncio
from pathlib import Path

from bough.engine.local.computes import session
from bough.engine.local.isolation.system_users import SocketUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.folder import VolumeFolder
from bough.postgres import pg_hba


async def add_role(role: str, folder: VolumeFolder, sockets: Path, socket_users: SocketUsers) -> None:
    """Until the files are written as a whole again, with the role among all others."""
    entries = pg_hba.render_ident_lines(role, control_user=socket_users.control, gateway_user=socket_users.gateway)
    text = await asyncio.to_thread((folder.conf / pg_hba.IDENT_FILE).read_text)
    if entries not in text:
        await run_shielded(lambda: folder.write_conf(pg_hba.IDENT_FILE, text + entries, folder.owner))
    async with session.open_session(sockets) as ours:
        await ours.reload()
