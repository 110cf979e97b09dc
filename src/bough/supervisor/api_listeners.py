"""The listening sockets of the API. The supervisor binds and keeps them; the control process inherits them.

The port therefore stays bound while control restarts: no other local user can bind it and receive the API keys of
the next callers, and requests wait in the socket's backlog until control accepts them.
"""

import os
import socket
from collections.abc import Sequence

from bough import log
from bough.config import Settings
from bough.supervisor import gateway_listeners, ports


def open_listeners(settings: Settings, port: int, inherited_fds: Sequence[int] = ()) -> tuple[socket.socket, ...]:
    """Return one socket per address. Reuse the inherited sockets that match and close the others."""
    inherited = [socket.socket(fileno=fd) for fd in inherited_fds]
    first, *others = ports.listen_addresses(settings)
    try:
        sockets = gateway_listeners.bind_listeners([first], port, inherited)
    except OSError as error:
        raise gateway_listeners.make_port_error(port, "--api-port", error) from None
    for address in others:
        # Clients that call http://localhost may try ::1 first. Another program may hold the port on ::1 only, and must
        # not prevent the platform from starting.
        ipv6 = [listener for listener in inherited if listener.family == socket.AF_INET6]
        try:
            sockets += gateway_listeners.bind_listeners([address], port, ipv6)
        except OSError as error:
            log.get_logger().warning("api_address_unavailable", address=address, reason=error.strerror)
    for listener in inherited:
        if listener not in sockets:
            listener.close()
    return tuple(sockets)


def read_inodes(sockets: Sequence[socket.socket]) -> tuple[int, ...]:
    """Return the inodes that identify these sockets in the kernel's socket table, in every process that holds them."""
    return tuple(os.fstat(listener.fileno()).st_ino for listener in sockets)
