"""The gateway's certificate is renewed before it ends, and follows the names and the operator's files."""

import asyncio

from bough import clock
from bough.control.platform.tls_files import TlsFiles


class RenewCertificates:
    interval = 5.0  # whoever replaced the files of their certificate waits for it

    def __init__(self, files: TlsFiles) -> None:
        self._files = files

    async def run(self) -> str:
        return await asyncio.to_thread(self._files.ensure, clock.now())
