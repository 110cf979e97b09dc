"""Finds the origin of a new connection: its address, and the user id if the client runs on this machine.

The computes of all projects share the loopback address, so the login limits distinguish them by user id. The
kernel provides it: with SO_PEERCRED on the local socket, with a sock_diag request about the peer's socket on TCP.
"""

import socket
import struct
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from bough.domain.private_networks import PrivateNetworks

_UCRED = struct.Struct("3i")  # pid, uid, gid
# linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NLMSG_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_PORTS = struct.Struct("!HH")
_ADDRESSES = struct.Struct("16s16s")
_REST_OF_ID = struct.Struct("=III")  # interface and a cookie of two words
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = 0xFFFFFFFF
_UID_OFFSET = _NLMSG_HEADER.size + 4 + 48 + 12  # after the states, the socket id and three words
_REPLY_BYTES = 4096
_CACHED_ADDRESSES = 4096  # parsing an address takes longer than the kernel request
_UID = struct.Struct("=I")


class SocketAddress(NamedTuple):
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class ClientOrigin:
    """`address` is None for a client on the local socket."""

    address: str | None
    limit_key: str  # the key that the login limits count under
    is_compute: bool = False  # the client is a process of a compute
    is_private: bool = False  # its address is in a private network

    @property
    def is_local(self) -> bool:
        return self.address is None


class ClientOrigins:
    """Resolves origins. `project_uids` is the range of user ids that computes run under; None: they run under ours."""

    def __init__(self, project_uids: tuple[int, int] | None, private_networks: PrivateNetworks | None = None) -> None:
        self._project_uids = project_uids
        self._private_networks = private_networks or PrivateNetworks()
        self._owners = SocketOwnerLookup()

    def resolve(self, sock: socket.socket, peername: object) -> ClientOrigin:
        if not isinstance(peername, tuple):
            uid = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[1]
            return ClientOrigin(None, f"uid {uid}", self._is_compute(uid))
        peer = _socket_address(peername)
        if self._project_uids is not None:
            owner = self._owners.find_uid(peer, _socket_address(sock.getsockname()))
            if owner is not None and self._is_compute(owner):
                # Code of any tenant runs there, so the address of the machine does not make it a private client.
                return ClientOrigin(peer.address, f"uid {owner}", is_compute=True)
        is_private = self._private_networks.contains(peer.address)
        return ClientOrigin(peer.address, limit_network(peer.address), is_private=is_private)

    @property
    def counts_private_traffic(self) -> bool:
        """Whether the operator named the private networks, so that their traffic is counted apart."""
        return self._private_networks.is_set

    def close(self) -> None:
        self._owners.close()

    def _is_compute(self, uid: int) -> bool:
        return self._project_uids is not None and self._project_uids[0] <= uid <= self._project_uids[1]


class SocketOwnerLookup:
    """Asks the kernel which user owns a TCP socket on this machine. This needs no privileges."""

    def __init__(self) -> None:
        self._diag: socket.socket | None = None

    def find_uid(self, remote: SocketAddress, local: SocketAddress) -> int | None:
        """Return the owner of the socket that connected from `remote` to `local`; None if it is on another machine."""
        try:
            if self._diag is None:
                self._diag = socket.socket(
                    socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETLINK_SOCK_DIAG
                )
            self._diag.send(_build_request(remote, local))  # the kernel replies before this returns
            reply = self._diag.recv(_REPLY_BYTES)
        except OSError:  # a kernel or sandbox without sock_diag: fall back to the address
            self.close()
            return None
        kind = _NLMSG_HEADER.unpack_from(reply)[1]
        if kind != _SOCK_DIAG_BY_FAMILY or len(reply) < _UID_OFFSET + _UID.size:
            return None
        uid: int = _UID.unpack_from(reply, _UID_OFFSET)[0]
        return uid

    def close(self) -> None:
        if self._diag is not None:
            self._diag.close()
            self._diag = None


@lru_cache(_CACHED_ADDRESSES)
def limit_network(address: str) -> str:
    """Return the /64 network of an IPv6 address, because one client usually has all addresses in it."""
    parsed = ip_address(address.partition("%")[0])
    if parsed.version == 6 and not parsed.is_loopback:
        return str(parsed.exploded[:19])  # the first 64 bits
    return address


def _build_request(remote: SocketAddress, local: SocketAddress) -> bytes:
    family = socket.AF_INET6 if ":" in remote.address else socket.AF_INET
    body = (
        _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
        + _PORTS.pack(remote.port, local.port)
        + _ADDRESSES.pack(_pack(family, remote), _pack(family, local))
        + _REST_OF_ID.pack(0, _NO_COOKIE, _NO_COOKIE)
    )
    return _NLMSG_HEADER.pack(_NLMSG_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body


def _pack(family: int, address: SocketAddress) -> bytes:
    return socket.inet_pton(family, address.address.partition("%")[0])


def _socket_address(sockname: tuple[str, int]) -> SocketAddress:
    return SocketAddress(_unmap_ipv4(sockname[0]), sockname[1])


@lru_cache(_CACHED_ADDRESSES)
def _unmap_ipv4(text: str) -> str:
    """Turn an IPv4-mapped IPv6 address into the IPv4 address."""
    address = ip_address(text)
    return str((isinstance(address, IPv6Address) and address.ipv4_mapped) or address)
