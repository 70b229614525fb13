"""Where the RAS service of a job listens, and whether that is this machine.

NCCL's rules (src/ras/client_support.cc:rasClientInitSocket): NCCL_RAS_ADDR, else localhost:28028.
All processes of one user may share a port (SO_REUSEPORT), those of several jobs, too.
"""

import ipaddress
import socket
from collections.abc import Iterable, Mapping

import msgspec

ADDRESS, ENABLE = "NCCL_RAS_ADDR", "NCCL_RAS_ENABLE"
DEFAULT = "localhost:28028"
LOOPBACK = ("127.0.0.1", "::1")


class RasPlace(msgspec.Struct, frozen=True, kw_only=True):
    """One address to ask, or why it is not asked."""

    address: str
    """As it is written: "localhost:28028"."""
    hosts: tuple[str, ...] = ()
    """Numeric addresses of this machine, in the order to try; () where it is not asked."""
    port: int = 0
    pids: frozenset[int] = frozenset()
    """Processes that were told to listen there; empty where nobody was."""
    why_not: str | None = None


def places(processes: Iterable[tuple[int, Mapping[str, str]]]) -> tuple[RasPlace, ...]:
    """The places of all processes, given by PID with their variables; the default one always."""
    users: dict[str, set[int]] = {DEFAULT: set()}
    for pid, variables in processes:
        if variables.get(ENABLE, "1").strip() != "0":
            users.setdefault(variables.get(ADDRESS) or DEFAULT, set()).add(pid)
    return tuple(place(address, frozenset(pids)) for address, pids in users.items())


def place(address: str, pids: frozenset[int] = frozenset()) -> RasPlace:
    """Understand one address; one of another machine is not asked."""
    host, colon, text = address.strip().rpartition(":")
    port = int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else 0
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not bare or not 0 < port < 65_536:
        why = f"{ADDRESS}={address[:80]} is no HOST:PORT"
        return RasPlace(address=address, pids=pids, why_not=why)
    hosts = _own(bare)
    if not hosts:
        why = f"{ADDRESS}={address[:80]} is not asked: not known to be an address of this machine"
        return RasPlace(address=address, pids=pids, port=port, why_not=why)
    return RasPlace(address=address, hosts=hosts, port=port, pids=pids)


def ours(host: str) -> bool:
    """Whether a numeric address is one of this machine."""
    return bool(_own(host))


def _own(host: str) -> tuple[str, ...]:
    """The numeric addresses behind a host, if it is this machine; no name is looked up."""
    if host.lower() in ("localhost", "ip6-localhost", "localhost.localdomain"):
        return LOOPBACK
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return ()
    if number.is_unspecified:
        return LOOPBACK
    if number.is_loopback or _bindable(host, number.version):
        return (host,)
    return ()


def _bindable(host: str, version: int) -> bool:
    """Whether the kernel has this address: only then a socket may bind to it."""
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            found = socket.getaddrinfo(host, 0, family, flags=socket.AI_NUMERICHOST)
            probe.bind(found[0][4])
    except OSError:
        return False
    return True
