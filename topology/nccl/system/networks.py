"""Which network plugin moves the bytes between domains and hosts, and the NICs it offers."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ...model.element import Element
from ...model.page import Basis
from ..settings import Settings, strtoll
from ..xml.names import listed

RDMA = re.compile(r"(mlx|bnxt_re|irdma|i40iw|cxgb|qedr|hfi|roce|rocep|ibp|ib\d|erdma|hns_|ionic)")
EFA = re.compile(r"(rdmap|efa)")
HCA, IFNAME = "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"

SOCKET_NIC = Element(
    tag="nic",
    children=(
        Element(
            tag="net",
            attributes=(
                ("name", "eth0"),
                ("dev", "0"),
                ("latency", "0"),
                ("speed", "10000"),
                ("port", "0"),
                ("guid", "0x0"),
                ("maxconn", "65536"),
                ("gdr", "0"),
            ),
        ),
    ),
)
"""What NCCL adds for a virtual NIC: 10 Gbit/s, beside the first CPU."""


class Network(NamedTuple):
    """A plugin by the name that logs print, and how sure that is."""

    name: str
    because: str
    basis: Basis = Basis.READ


def nets_of(root: Element) -> list[Element]:
    """Every NIC of the XML that the library would use (it has a device number)."""
    return [net for net in root.walk("net") if net.get("dev") is not None]


def network_of(root: Element, settings: Settings) -> Network:
    """The plugin: the one the environment names, else by the names of the NICs."""
    setting = settings.text("NCCL_NET")
    if setting:
        for known in ("IB", "Socket"):
            if setting.lower() == known.lower():
                return Network(known, f"NCCL_NET={setting}")
        return Network(setting[:40], f"NCCL_NET={setting[:40]}")
    names = [net.get("name") or "" for net in nets_of(root)]
    if any(RDMA.match(name) for name in names):
        if settings.integer("NCCL_IB_DISABLE", 0):
            return Network("Socket", "NCCL_IB_DISABLE is set")
        shown = next((net.get("name") or "" for net in _adapters(root, settings)), None)
        if shown is None:
            return Network("Socket", f"{HCA} names none of the RDMA devices")
        return Network("IB", f"NICs such as {shown[:20]}")
    if any(EFA.match(name) for name in names):
        return Network(
            "Libfabric", "EFA devices, and that the aws-ofi-nccl plugin is installed", Basis.ASSUMED
        )
    if names:
        return Network("Socket", f"no RDMA device, only {names[0][:20]}")
    return Network("Socket", "no NIC is named; NCCL always finds a socket interface", Basis.ASSUMED)


def reported(root: Element, network: Network, settings: Settings) -> list[Element]:
    """The NICs of the XML that the plugin offers: of its kind, and those that a list names.

    A list that names no interface ends the start; all are taken then.
    """
    nets = nets_of(root)
    if network.name == "IB":
        adapters = {id(net) for net in _adapters(root, settings)}
        return [net for net in nets if id(net) in adapters or not _is_rdma(net)]
    if network.name != "Socket":
        return nets
    nets = [net for net in nets if not _is_rdma(net)]
    wanted = settings.text(IFNAME) or ""
    return [net for net in nets if listed(wanted, net.get("name") or "")] or nets


def _adapters(root: Element, settings: Settings) -> Iterator[Element]:
    """The RDMA devices that NCCL_IB_HCA names (net_ib.cc:ncclIbInitDevices)."""
    wanted = settings.text(HCA) or ""
    for nic in root.walk("nic"):
        nets = sorted(nic.each("net"), key=number_of)
        for before, net in enumerate(nets):
            # Ports of one card are counted on: the first port of its second function is 2.
            port = strtoll(net.get("port") or "")[0]
            port = port - before if port > before else port or -1
            known = _is_rdma(net) and net.get("dev") is not None
            if known and listed(wanted, net.get("name") or "", port):
                yield net


def _is_rdma(net: Element) -> bool:
    return RDMA.match(net.get("name") or "") is not None


def number_of(net: Element) -> int:
    """The number of a NIC; 0 without one."""
    return strtoll(net.get("dev") or "")[0]


def with_socket_nic(root: Element) -> Element:
    """The XML with an assumed socket NIC beside the first CPU."""
    first = next(root.each("cpu"), None)
    children = tuple(
        msgspec.structs.replace(child, children=(*child.children, SOCKET_NIC))
        if child is first
        else child
        for child in root.children
    )
    return msgspec.structs.replace(root, children=children)
