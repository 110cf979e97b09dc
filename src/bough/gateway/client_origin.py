"""Who is at the other end of a new connection: its address, and the user id when its process runs on this machine.

Computes of all projects share the loopback address, so the limits tell them apart by user id. The kernel
tells it: for the local socket with SO_PEERCRED, for TCP with a sock_diag request for the peer's own socket.
"""

import socket
import struct
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

_UCRED = struct.Struct("3i")  # pid, uid, gid
# linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NLMSG_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_PORTS = struct.Struct("!HH")
_ADDRESSES = struct.Struct("16s16s")
_REST_OF_ID = struct.Struct("=III")  # interface and two words of a cookie
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = 0xFFFFFFFF
_UID_OFFSET = _NLMSG_HEADER.size + 4 + 48 + 12  # after the states, the socket's id and three words
_ANSWER_BYTES = 4096
_ADDRESSES_KEPT = 4096  # parsed; parsing takes longer than asking the kernel
_UID = struct.Struct("=I")


class SocketAddress(NamedTuple):
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class ClientOrigin:
    """`address` is None for a client of the local socket."""

    address: str | None
    limit_key: str  # under which the limits count it
    is_compute: bool = False  # a process of a project's compute

    @property
    def is_local(self) -> bool:
        return self.address is None


class ClientOrigins:
    """Finds out who a peer is. `project_uids` is the range of user ids that computes run under; None: ours."""

    def __init__(self, project_uids: tuple[int, int] | None) -> None:
        self._project_uids = project_uids
        self._owners = SocketOwnerLookup()

    def resolve(self, sock: socket.socket, peername: object) -> ClientOrigin:
        if not isinstance(peername, tuple):
            uid = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1]
            return ClientOrigin(None, f"uid {uid}", self._is_compute(uid))
        peer = _socket_address(peername)
        if self._project_uids is not None:
            owner = self._owners.find_uid(peer, _socket_address(sock.getsockname()))
            if owner is not None and self._is_compute(owner):
                return ClientOrigin(peer.address, f"uid {owner}", is_compute=True)
        return ClientOrigin(peer.address, limit_network(peer.address))

    def close(self) -> None:
        self._owners.close()

    def _is_compute(self, uid: int) -> bool:
        return self._project_uids is not None and self._project_uids[0] <= uid <= self._project_uids[1]


class SocketOwnerLookup:
    """Asks the kernel which user a TCP socket of this machine belongs to. No privilege is needed for it."""

    def __init__(self) -> None:
        self._diag: socket.socket | None = None

    def find_uid(self, remote: SocketAddress, local: SocketAddress) -> int | None:
        """Of the socket that connected from `peer` to `ours`; None when it is not on this machine."""
        try:
            if self._diag is None:
                self._diag = socket.socket(
                    socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETLINK_SOCK_DIAG
                )
            self._diag.send(_request(remote, local))  # the kernel has answered when this returns
            answer = self._diag.recv(_ANSWER_BYTES)
        except OSError:  # a kernel or a sandbox without sock_diag: the address is all that can be known
            self.close()
            return None
        kind = _NLMSG_HEADER.unpack_from(answer)[1]
        if kind != _SOCK_DIAG_BY_FAMILY or len(answer) < _UID_OFFSET + _UID.size:
            return None
        uid: int = _UID.unpack_from(answer, _UID_OFFSET)[0]
        return uid

    def close(self) -> None:
        if self._diag is not None:
            self._diag.close()
            self._diag = None


@lru_cache(_ADDRESSES_KEPT)
def limit_network(address: str) -> str:
    """A network of IPv6 counts as one: its owner has all addresses in it."""
    place = ip_address(address.partition("%")[0])
    if place.version == 6 and not place.is_loopback:
        return str(place.exploded[:19])  # the first 64 bits
    return address


def _request(peer: SocketAddress, ours: SocketAddress) -> bytes:
    family = socket.AF_INET6 if ":" in peer.address else socket.AF_INET
    body = (
        _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
        + _PORTS.pack(peer.port, ours.port)
        + _ADDRESSES.pack(_packed(family, peer), _packed(family, ours))
        + _REST_OF_ID.pack(0, _NO_COOKIE, _NO_COOKIE)
    )
    return _NLMSG_HEADER.pack(_NLMSG_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body


def _packed(family: int, place: SocketAddress) -> bytes:
    return socket.inet_pton(family, place.address.partition("%")[0])


def _socket_address(name: tuple[str, int]) -> SocketAddress:
    return SocketAddress(_plain(name[0]), name[1])


@lru_cache(_ADDRESSES_KEPT)
def _plain(text: str) -> str:
    """An IPv4 address as itself, also when it came by an IPv6 socket."""
    address = ip_address(text)
    return str((isinstance(address, IPv6Address) and address.ipv4_mapped) or address)
