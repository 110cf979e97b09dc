"""The listening sockets of the API. The supervisor binds them and keeps them, and control inherits them.

So the port is never free while control restarts: no other user of the machine can take it and receive the
keys of the next callers, and requests wait in the queue of the socket until control accepts them.
"""

import os
import socket
from collections.abc import Sequence

from bough import log
from bough.config import Settings
from bough.supervisor import listeners, ports


def open_listeners(settings: Settings, port: int, inherited_fds: Sequence[int] = ()) -> tuple[socket.socket, ...]:
    """One socket an address. Those of the program before us that fit are kept, the others closed."""
    had = [socket.socket(fileno=descriptor) for descriptor in inherited_fds]
    first, *others = ports.listen_addresses(settings)
    try:
        held = listeners.bind_listeners([first], port, had)
    except OSError as error:
        raise listeners.make_port_error(port, "--api-port", error) from None
    for address in others:
        # Clients that call http://localhost may try ::1 first. A program that has it already, and that ran
        # beside earlier versions, does not keep the platform from starting.
        try:
            held += listeners.bind_listeners([address], port, [one for one in had if one.family == socket.AF_INET6])
        except OSError as error:
            log.get_logger().warning("the API is not reachable by this address", address=address, reason=error.strerror)
    for unfit in had:
        if unfit not in held:
            unfit.close()
    return tuple(held)


def read_inodes(sockets: Sequence[socket.socket]) -> tuple[int, ...]:
    """By which the kernel's table of sockets names them; the same in every process that has them."""
    return tuple(os.fstat(listener.fileno()).st_ino for listener in sockets)
