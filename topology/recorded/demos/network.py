"""A demo's answers for the sources `network` and `software`."""

from __future__ import annotations

from typing import Any

from ...hardware.vendors import AMD
from .pci import ABSENT, NO_NVIDIA
from .pci_tree import NIC, Function, paths
from .shape import Adapter, DemoShape

INFINIBAND_TYPE, ETHERNET_TYPE = "32", "1"
"""ARPHRD_ numbers of Linux if_arp.h."""
ROUTES = (
    "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
    "{name} 00000000 010200C0 0003 0 0 100 00000000 0 0 0"
)


def network(shape: DemoShape, functions: tuple[Function, ...]) -> dict[str, Any]:
    """What sysfs would say about a demo's adapters: NICs with verbs are RDMA devices, mlx5_N."""
    places = paths(functions)
    interfaces: dict[str, Any] = {}
    rdma: dict[str, Any] = {}
    first = shape.ethernet.interface.format(index=0)
    addresses = {first: ["192.0.2.10/24"]}
    for function in functions:
        adapter = {"nic": shape.nic, "eth": shape.ethernet}.get(function.kind)
        if adapter is None:
            continue
        name, place = adapter.interface.format(index=function.number), places[function.address]
        interfaces[name] = _interface(adapter, function, f"{place}/net/{name}")
        if adapter is shape.nic and not adapter.verbs:
            addresses[name] = [f"198.51.100.{10 + function.number}/24"]
        elif adapter is shape.nic:
            device = f"mlx5_{function.number}"
            rdma[device] = _rdma(adapter, function, f"{place}/infiniband/{device}", name)
    return {
        "demo": True,
        "absent": ABSENT,
        "interfaces": interfaces,
        "rdma": rdma,
        "addresses": addresses,
        "proc/net/route": ROUTES.format(name=first),
    }


def _interface(adapter: Adapter, function: Function, path: str) -> dict[str, str]:
    infiniband, fast = adapter.infiniband, function.kind is NIC
    return {
        "path": path,
        "ifindex": str(2 + function.number + fast),
        "address": f"02:de:30:00:{int(fast):02x}:{function.number:02x}",
        "type": INFINIBAND_TYPE if infiniband else ETHERNET_TYPE,
        "uevent": f"INTERFACE={path.rpartition('/')[2]}",
        "driver": adapter.driver,
        "numa_node": str(function.numa),
        "flags": "0x1003",
        "mtu": "4092" if infiniband else "9000" if function.kind is NIC else "1500",
        "operstate": "up",
        "speed": str(adapter.gbit * 1000),
    }


def _rdma(adapter: Adapter, function: Function, path: str, interface: str) -> dict[str, Any]:
    return {
        "path": path,
        "driver": adapter.driver,
        "vendor": f"0x{adapter.pci_id.partition(':')[0]}",
        "numa_node": str(function.numa),
        "node_guid": f"02de:3000:0000:{function.number:04x}",
        "fw_ver": adapter.firmware,
        "board_id": adapter.board_id,
        "node_type": "1: CA",
        "netdevs": [interface],
        "ports": {
            "1": {
                "state": "4: ACTIVE",
                "phys_state": "5: LinkUp",
                "rate": adapter.rate,
                "link_layer": adapter.link_layer,
                "lid": f"0x{function.number + 1:x}" if adapter.infiniband else "0x0",
            }
        },
    }


def software(shape: DemoShape) -> dict[str, Any]:
    """The versions that a look at files would find."""
    libraries = []
    if shape.nccl is not None:
        folder = f"/usr/lib/{shape.node.architecture}-linux-gnu"
        libraries = [[f"{folder}/libnccl.so.2", f"libnccl.so.{shape.nccl}"]]
    files: dict[str, Any] = {}
    if shape.gpu.vendor == AMD.id:
        files["proc/driver/nvidia/version"] = files["usr/local/cuda/version.txt"] = NO_NVIDIA
    if shape.rccl is not None:
        names = ("MAJOR", "MINOR", "PATCH")
        numbers = zip(names, shape.rccl.split("."), strict=True)
        lines = [f"#define NCCL_{name} {number}" for name, number in numbers]
        files["opt/rocm/include/rccl/rccl.h"] = "\n".join(lines)
    return {"demo": True, "absent": ABSENT, "files": files, "packages": [], "libraries": libraries}
