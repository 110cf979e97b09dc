"""Opening a member: what may come of it."""

import asyncio
from dataclasses import replace

from bough.errors import PlatformError
from bough.gateway.backend import Backend, Backends, RefusedByPostgres
from bough.gateway.errors import NO_WAKE, Refused, no_postgres, trouble_of
from bough.gateway.pooling.reported import Reported
from bough.gateway.routing import Target
from bough.gateway.wire import messages
from bough.gateway.wire.malformed import Malformed
from bough.ids import EndpointId

WAKE_SECONDS = 90.0
NAME = "application_name"
_TOO_MANY = "53300"


class NotOpened(Exception):
    """Nobody who waits can be served: `words` say why, in the protocol."""

    def __init__(self, words: bytes) -> None:
        super().__init__()
        self.words = words


class Full(Exception):
    """Others have all the connections that Postgres takes, so it is to be tried again."""


async def opened(backends: Backends, endpoint: EndpointId, target: Target, name: bytes) -> tuple[Backend, Reported]:
    """A session whose application_name is `name`, and what it reports; a compute that sleeps is woken for it."""
    parameters = {**target.parameters, NAME: name.decode(errors="surrogateescape")}
    try:
        async with asyncio.timeout(WAKE_SECONDS):
            backend = await backends.open(endpoint, replace(target, parameters=parameters))
    except TimeoutError:
        raise NotOpened(NO_WAKE.encoded()) from Refused(NO_WAKE)
    except RefusedByPostgres as refused:
        if messages.trouble(refused.message.body).code == _TOO_MANY:
            raise Full from refused
        raise NotOpened(refused.message.encoded()) from refused
    except PlatformError as error:
        raise NotOpened(trouble_of(error).encoded()) from error
    try:
        return backend, Reported.greeting(backend.before_key)
    except Malformed as error:
        backend.channel.close()
        trouble = no_postgres(str(error))
        raise NotOpened(trouble.encoded()) from Refused(trouble)
