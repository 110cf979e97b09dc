"""What people were given for a while is forgotten when its time is over: sessions, links, invitations, offers."""

from bough import clock
from bough.store.store import Store


class DeleteExpiredLinks:
    interval = 600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        now = clock.now()
        async with self._store.transaction() as rows:
            counts = {
                "sessions": await rows.sessions.delete_expired(now),
                "links": await rows.links.delete_expired(now),
                "invitations": await rows.invitations.delete_expired(now),
                "transfer requests": await rows.transfer_requests.delete_expired(now),
            }
        gone = [f"{count} {things}" for things, count in counts.items() if count]
        return f"forgot {', '.join(gone)} that expired" if gone else ""
