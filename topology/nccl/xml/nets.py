"""A `net` element as an RDMA device with one port, or as an interface of the kernel."""

from __future__ import annotations

import re

from ...model.element import Element
from ...model.surroundings import Interface, RdmaDevice, RdmaPort
from .values import complete, whole

AMAZON = 0x1D0F
INFINIBAND_CLASS = "0x0207"
_RDMA = re.compile(
    r"(?:mlx\d+_|rdmap|efa|bnxt_re|irdma|rocep|ibp?\d|hfi|qedr|ionic|roce)", re.ASCII
)
_REAL_BYTES = 4
"""A made-up guid counts 0, 1, 2; a real one has more bytes that are not zero."""


def net_name(net: Element) -> str | None:
    """The name, or "net0" after the number where the file has none; None without either."""
    if net.get("name"):
        return (net.get("name") or "")[:64]
    number = whole(net, "dev")
    return None if number is None else f"net{number}"


def is_rdma(net: Element, name: str) -> bool:
    """Whether the device is an RDMA adapter: sockets have port 0, adapters count from 1."""
    return (whole(net, "port") or 0) > 0 or _RDMA.match(name) is not None


def rdma_of(
    pci: Element | None, net: Element, name: str, own: str | None, numa: int | None
) -> RdmaDevice:
    """Make the record of an RDMA adapter; one port, for NCCL lists each port on its own."""
    speed = whole(net, "speed", least=1)
    port = RdmaPort(
        port=whole(net, "port", least=1) or 1, rate_gbit=None if speed is None else speed / 1000
    )
    record = RdmaDevice(
        name=name,
        address=own,
        kind=_kind(pci),
        guid=_guid(net),
        numa_node=numa,
        ports=(complete(port),),
    )
    return complete(record)


def interface_of(net: Element, name: str, own: str | None, numa: int | None) -> Interface:
    """Make the record of an interface that NCCL would use through sockets."""
    record = Interface(
        name=name,
        address=own,
        kind="loopback" if name == "lo" else "ethernet",
        speed_mbps=whole(net, "speed", least=1),
        numa_node=numa,
    )
    return complete(record)


def _kind(pci: Element | None) -> str:
    if pci is None:
        return "rdma"
    if whole(pci, "vendor") == AMAZON:
        return "efa"
    code = pci.get("class") or ""
    if code.startswith(INFINIBAND_CLASS):
        return "infiniband"
    return "roce" if code.startswith("0x0200") else "rdma"


def _guid(net: Element) -> str | None:
    """The system image GUID as sysfs writes one; NCCL prints its bytes in reverse."""
    try:
        octets = int(net.get("guid") or "", 16).to_bytes(8, "little")
    except (ValueError, OverflowError):
        return None
    if 8 - octets.count(0) < _REAL_BYTES:
        return None
    return ":".join(octets[i : i + 2].hex() for i in range(0, 8, 2))
