"""Telling a service manager that the platform is ready: systemd's protocol, see sd_notify(3).

One datagram goes to the socket that the manager named in the environment.
"""

import os
import socket

from bough.cli import output

SOCKET_VARIABLE = "NOTIFY_SOCKET"


def is_requested() -> bool:
    return SOCKET_VARIABLE in os.environ


def notify_ready(url: str) -> None:
    """Instead of the welcome for people, which shows the operator's key: a manager keeps what we print."""
    address = os.environ[SOCKET_VARIABLE]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect("\0" + address[1:] if address.startswith("@") else address)
            sender.send(f"READY=1\nSTATUS=Bough is ready at {url}\n".encode())
    except OSError as error:
        output.print_note(f"The service manager at {address} could not be told that Bough is ready: {error.strerror}.")
