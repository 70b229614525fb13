"""PCI from /sys/bus/pci/devices: every function, bridges and root ports included.

The raw answer: {"absent": why a missing key is missing, "devices": {address: device},
"names": {"10de": vendor, "10de:2335": device} or {"error": why}}. A device holds "path" (below
sys/devices, "pci0000:00/0000:00:01.0/0000:01:00.0"), the texts of its sysfs files under their own
names ("class", "vendor", "numa_node", "max_link_speed", "resource", ...), and

- "driver", "physfn", "iommu_group": last part of that link's target; "iommu_type" of the group
- "acs": the ACS control register, "0x001d"; "" when the device has no ACS capability
- "port_type": PCIe device/port type, "4" = root port, "5" = switch upstream, "6" = downstream

A value is a text or {"error": why}; a key is missing when there is no such file.
"""

from __future__ import annotations

from collections.abc import Callable

from ...model.part import Raw
from ...model.source import Source, SourceAbsent
from ..files.answers import LEFT_OUT, left_out
from ..files.tree import Tree, Unread, answers, joined, live_tree
from .devices import parse
from .names import look_up

FOLDER = "sys/bus/pci/devices"
FILES = (
    "class",
    "vendor",
    "device",
    "subsystem_vendor",
    "subsystem_device",
    "numa_node",
    "local_cpulist",
    "max_link_speed",
    "max_link_width",
    "resource",
    "sriov_totalvfs",
    "sriov_numvfs",
)
MOVING = ("current_link_speed", "current_link_width")
LIMIT_DEVICES = 8192
FULL_READS = 6
"""After this many reads every device is read again: drivers and virtual functions come and go."""
ASLEEP = "the device sleeps, and asking would wake it"
CAPABILITY_POINTER = 0x34
"""Registers as in the PCI Express Base Specification, with the names of Linux pci_regs.h."""
PCI_EXPRESS = 0x10
"""Id of the PCI Express capability; bits 7:4 of its flags at +2 are the device/port type."""
EXTENDED_START = 0x100
ACS = 0x000D
"""Id of the extended capability Access Control Services; its control register is at +6."""
HEADER_BYTES = 256
NO_ROOT = "config space needs root"


class PciReader:
    """Asks sysfs once per call; what cannot change from second to second is kept."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._devices: dict[str, dict[str, Raw]] = {}
        self._names: Raw = None
        self._reads = 0

    def __call__(self) -> Raw:
        """Ask once. Raises SourceAbsent when the kernel shows no PCI bus."""
        tree = self._tree
        listed = tree.names(FOLDER)
        addresses = listed[:LIMIT_DEVICES]
        if not addresses:
            raise SourceAbsent(f"no PCI device in /{FOLDER}")
        fresh = self._reads % FULL_READS == 0
        known = {} if fresh else self._devices
        devices = {
            address: known.get(address) or read_device(tree, address) for address in addresses
        }
        for address, device in devices.items():
            if "max_link_speed" in device:
                device.update(_moving(tree, f"{FOLDER}/{address}"))
        if self._names is None or devices.keys() != self._devices.keys():
            self._names = _names(devices)
        self._devices = devices
        self._reads += 1
        return {
            "absent": tree.absent,
            "devices": {address: dict(device) for address, device in devices.items()},
            "names": self._names,
            LEFT_OUT: left_out("PCI devices", listed, LIMIT_DEVICES),
        }


def read(tree: Tree) -> Raw:
    """Read a whole tree once. Raises SourceAbsent when it shows no PCI bus."""
    return PciReader(tree)()


def read_device(tree: Tree, address: str) -> dict[str, Raw]:
    """Read everything about one device except the present state of its link."""
    folder = f"{FOLDER}/{address}"
    device: dict[str, Raw] = {}
    path = _place(tree, address)
    if path is not None:
        device["path"] = path.removeprefix("sys/devices/")
    device.update(answers(tree, folder, FILES))
    for name in ("driver", "physfn", "iommu_group"):
        target = tree.link(f"{folder}/{name}")
        if target is not None:
            device[name] = target.rpartition("/")[2]
    if "iommu_group" in device:
        group = f"sys/kernel/iommu_groups/{device['iommu_group']}"
        device.update(
            {f"iommu_{name}": value for name, value in answers(tree, group, ("type",)).items()}
        )
    if str(device.get("class", "")).startswith("0x0604") or "sriov_totalvfs" in device:
        device.update(
            {"acs": {"error": ASLEEP}} if _sleeps(tree, folder) else capabilities(tree, folder)
        )
    return device


def capabilities(tree: Tree, folder: str) -> dict[str, Raw]:
    """Read "acs" and, where it can be read, "port_type" from the config space of a device."""
    path = f"{folder}/config"
    head = tree.octets(path, 0, HEADER_BYTES)
    if not isinstance(head, bytes):
        return {} if head.kind is Unread.ABSENT else {"acs": {"error": head.why}}
    if len(head) < HEADER_BYTES:
        # Without CAP_SYS_ADMIN the kernel hands out the first 64 bytes alone.
        return {"acs": {"error": NO_ROOT}}
    found: dict[str, Raw] = {}
    express = _express(head)
    if express is not None:
        found["port_type"] = str(head[express + 2] >> 4)
    found["acs"] = _acs(tree, path)
    return found


def _express(head: bytes) -> int | None:
    """Offset of the PCI Express capability in the first 256 bytes."""
    position = head[CAPABILITY_POINTER] & 0xFC
    for _ in range(48):  # a broken chain may be a ring
        if position < 0x40 or position + 3 >= HEADER_BYTES:
            return None
        if head[position] == PCI_EXPRESS:
            return position
        position = head[position + 1] & 0xFC
    return None


def _acs(tree: Tree, path: str) -> Raw:
    position = EXTENDED_START
    for _ in range(96):
        header = tree.octets(path, position, 4)
        if not isinstance(header, bytes):
            return {"error": header.why}
        value = int.from_bytes(header, "little")
        if len(header) < 4 or value in (0, 0xFFFFFFFF):
            # Nothing there at all: conventional PCI, or extended space is out of reach.
            return (
                ""
                if position > EXTENDED_START or value == 0
                else {"error": "extended config space is out of reach"}
            )
        if value & 0xFFFF == ACS:
            control = tree.octets(path, position + 6, 2)
            if isinstance(control, bytes) and len(control) == 2:
                return f"0x{int.from_bytes(control, 'little'):04x}"
            return {"error": "the ACS register could not be read"}
        position = value >> 20 & 0xFFC
        if position < EXTENDED_START:
            return ""
    return {"error": "the list of capabilities does not end"}


def _place(tree: Tree, address: str) -> str | None:
    target = tree.link(f"{FOLDER}/{address}")
    # No folder of sys/devices is a link itself, so the text of the link alone gives the place.
    return tree.resolved(f"{FOLDER}/{address}") if target is None else joined(FOLDER, target)


def _moving(tree: Tree, folder: str) -> dict[str, Raw]:
    if _sleeps(tree, folder):
        return {name: {"error": ASLEEP} for name in MOVING}
    return answers(tree, folder, MOVING)


def _sleeps(tree: Tree, folder: str) -> bool:
    # Newer kernels power a device up to answer for its link; a monitor must not do that.
    return tree.text(f"{folder}/power/runtime_status") == "suspended"


def _names(devices: dict[str, dict[str, Raw]]) -> Raw:
    ids = {
        (str(device.get("vendor", ""))[2:6], str(device.get("device", ""))[2:6])
        for device in devices.values()
    }
    # Names of numbers are the same everywhere: a recording is translated with the file here.
    found = look_up(live_tree(), ids)
    return {"error": "no pci.ids on this machine"} if found is None else found


def _reader() -> Callable[[], Raw]:
    return PciReader(live_tree())


SOURCE = Source(
    id="pci", interval_seconds=10.0, deadline_seconds=5.0, reader=_reader, opening=True, parse=parse
)
