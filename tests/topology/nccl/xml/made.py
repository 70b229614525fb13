"""Machines for tests of the detected topology XML, and looks at what was found."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from gputop.topology.model.element import Element
from gputop.topology.model.machine import Gpu, Machine, NvLink, PciDevice, PciKind
from gputop.topology.model.surroundings import Host, Interface, NumaNode, RdmaDevice, RdmaPort
from gputop.topology.nccl.settings import Settings
from gputop.topology.nccl.xml.detect import Detected, detect
from gputop.topology.sources.collect import merge_machine
from gputop.topology.sources.linux import host
from gputop.topology.sources.pci import network, pci
from tests.support.places import RECORDINGS


def found(machine: Machine, **variables: str) -> Detected:
    return detect(machine, Settings(variables))


def pcis(element: Element, above: str = "") -> Iterator[tuple[str, str]]:
    """Each `pci` element with what it hangs on."""
    for child in element.children:
        if child.tag == "pci":
            yield child.get("busid") or "", above
            yield from pcis(child, child.get("busid") or "")
        elif child.tag == "cpu":
            yield from pcis(child, f"cpu {child.get('numaid')}")


def gpu_links(element: Element) -> dict[str, list[tuple[str, int, str]]]:
    """Bus id -> (target, count, class) of its links."""
    return {
        node.get("busid") or "": [
            (link.get("target") or "", int(link.get("count") or 0), link.get("tclass") or "")
            for gpu in node.each("gpu")
            for link in gpu.children
        ]
        for node in element.walk()
        if node.tag == "pci" and any(node.each("gpu"))
    }


def nets(element: Element) -> list[dict[str, str]]:
    """The network devices in the order of their numbers."""
    found = [dict(node.attributes) for node in element.walk() if node.tag == "net"]
    return sorted(found, key=lambda net: int(net["dev"]))


def machine(**fields: object) -> Machine:
    """One GPU and an Ethernet card of two functions, each below a root port of NUMA node 0."""
    given: dict[str, object] = {
        "host": Host(
            architecture="x86_64", cpu_vendor="GenuineIntel", cpu_family=6, cpu_model=143,
            kernel="6.8.0-60-generic", numa=(NumaNode(node=0, cpus="0-3"),),
        ),
        "gpus": (gpu(),),
        "pci": (
            bridge("0000:00:01.0", "pci0000:00"),
            PciDevice(
                address="0000:01:00.0", parent="0000:00:01.0", kind=PciKind.GPU,
                class_code=0x030200,
                numa_node=0, link_speed_max_gts=32.0, link_width_max=16,
            ),
            bridge("0000:00:02.0", "pci0000:00"),
            *(
                PciDevice(
                    address=f"0000:02:00.{i}", parent="0000:00:02.0", kind=PciKind.NIC,
                    class_code=0x020000, numa_node=0, link_speed_max_gts=16.0, link_width_max=8,
                )
                for i in (0, 1)
            ),
        ),
        "interfaces": (
            interface("docker0", None, "virtual"),
            interface("eth0", "0000:02:00.0"),
            interface("eth1", "0000:02:00.1"),
            interface("lo", None, "loopback"),
        ),
    }  # fmt: skip
    return Machine(**{**given, **fields})  # type: ignore[arg-type]


def with_gpu(of: Machine, **fields: object) -> Machine:
    one = msgspec.structs.replace(gpu(), **fields)
    return msgspec.structs.replace(of, gpus=(one,))


def gpu(address: str = "0000:01:00.0", **fields: object) -> Gpu:
    given: dict[str, object] = {
        "address": address, "vendor": "nvidia", "index": 0, "uuid": "GPU-1",
        "name": "NVIDIA L40S", "compute_capability": "8.9",
    }  # fmt: skip
    return Gpu(**{**given, **fields})  # type: ignore[arg-type]


def bridge(address: str, parent: str) -> PciDevice:
    return PciDevice(
        address=address, parent=parent, kind=PciKind.ROOT_PORT, class_code=0x060400,
        link_speed_max_gts=16.0, link_width_max=16,
    )  # fmt: skip


def interface(name: str, address: str | None, kind: str = "ethernet") -> Interface:
    return Interface(
        name=name, address=address, kind=kind, up=True, speed_mbps=25000, ips=("192.0.2.1/24",)
    )


def adapter(name: str, address: str, **fields: object) -> RdmaDevice:
    port = RdmaPort(port=1, state="ACTIVE", rate_gbit=200.0, link_layer="InfiniBand")
    given: dict[str, object] = {"name": name, "address": address, "ports": (port,)}
    return RdmaDevice(**{**given, **fields})  # type: ignore[arg-type]


def pci_of(detected: Detected, busid: str) -> Element:
    return next(element for element in detected.element.walk() if element.get("busid") == busid)


def link(number: int, **fields: object) -> NvLink:
    given: dict[str, object] = {
        "link": number, "active": True, "remote_kind": "gpu", "remote_address": "0000:09:00.0",
    }  # fmt: skip
    return NvLink(**{**given, **fields})  # type: ignore[arg-type]


def made(name: str) -> Machine:
    """A machine of hand-made raw answers."""
    parts = [
        source.SOURCE.parse(json.loads((RECORDINGS / name / f"{file}.json").read_text()))
        for source, file in ((pci, "pci"), (host, "host"), (network, "network"))
    ]
    return merge_machine(parts)
