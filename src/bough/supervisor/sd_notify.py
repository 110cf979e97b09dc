"""Tells a service manager that the platform is ready, with the protocol of systemd's sd_notify(3).

It sends one datagram to the socket that the manager names in the environment.
"""

import os
import socket
from collections.abc import Callable

SOCKET_VARIABLE = "NOTIFY_SOCKET"


def is_requested() -> bool:
    return SOCKET_VARIABLE in os.environ


def notify_ready(url: str, report: Callable[[str], None]) -> None:
    """Replace the start-up message, which shows the operator's key: a service manager stores our output."""
    address = os.environ[SOCKET_VARIABLE]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect("\0" + address[1:] if address.startswith("@") else address)
            sender.send(f"READY=1\nSTATUS=Bough is ready at {url}\n".encode())
    except OSError as error:
        report(f"Cannot notify the service manager at {address} that Bough is ready: {error.strerror}.")
