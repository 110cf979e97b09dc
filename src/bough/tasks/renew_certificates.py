"""Renews the gateway's certificate before it expires and when its names or the operator's files change."""

import asyncio

from bough import clock
from bough.control.platform.tls_files import TlsFiles


class RenewCertificates:
    interval = 5.0  # an operator who replaced the files waits for them to be used

    def __init__(self, files: TlsFiles) -> None:
        self._files = files

    async def run(self) -> str:
        return await asyncio.to_thread(self._files.ensure, clock.now())
