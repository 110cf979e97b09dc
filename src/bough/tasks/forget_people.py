"""What people were given for a while is forgotten when its time is over: sessions, links, invitations, offers."""

from bough import clock
from bough.store.store import Store


class ForgetPeople:
    every = 600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        now = clock.now()
        async with self._store.transaction() as rows:
            counts = {
                "sessions": await rows.sessions.forget_expired(now),
                "links": await rows.links.forget_expired(now),
                "invitations": await rows.invitations.forget_expired(now),
                "transfer requests": await rows.transfer_requests.forget_expired(now),
            }
        gone = [f"{count} {things}" for things, count in counts.items() if count]
        return f"forgot {', '.join(gone)} that expired" if gone else ""
