"""Which network plugin moves the bytes between domains and hosts, and the NICs it offers."""

import re
from typing import NamedTuple

import msgspec

from ...model.element import Element
from ...model.page import Basis
from ..settings import Settings

RDMA = re.compile(r"(mlx|bnxt_re|irdma|i40iw|cxgb|qedr|hfi|roce|rocep|ibp|ib\d|erdma|hns_|ionic)")
EFA = re.compile(r"(rdmap|efa)")

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
        return Network("IB", f"NICs such as {next(n for n in names if RDMA.match(n))[:20]}")
    if any(EFA.match(name) for name in names):
        return Network(
            "Libfabric", "EFA devices, and that the aws-ofi-nccl plugin is installed", Basis.ASSUMED
        )
    if names:
        return Network("Socket", f"no RDMA device, only {names[0][:20]}")
    return Network("Socket", "no NIC is named; NCCL always finds a socket interface", Basis.ASSUMED)


def without_other_nics(root: Element, network: Network) -> Element:
    """Leave out RDMA NICs when sockets are asked for: the socket plugin does not report them."""
    if network.name != "Socket":
        return root
    return _filtered(root)


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


def _filtered(element: Element) -> Element:
    kept = tuple(
        _filtered(child)
        for child in element.children
        if not (child.tag == "net" and RDMA.match(child.get("name") or ""))
    )
    if kept == element.children:
        return element
    return msgspec.structs.replace(element, children=kept)
