"""What /sys shows of the bus: nothing, some of it, that of another machine. Never healthy then."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import pytest

from gputop.topology.model.machine import Machine, PciDevice, PciKind
from gputop.topology.model.readings import GpuReading
from gputop.topology.model.severity import Verdict
from gputop.topology.model.snapshot import NodeSnapshot
from tests.grid import turns
from tests.support.rule_cases import base, diagnosed

from .device_rules import at

DEMOS = ("dgx-1v", "gb200-nvl72-tray", "hgx-h100-8", "mi250x-8", "mi300x-8", "pcie-l40s-8")
WSL, GVISOR, NEWER = "5.15.153.1-microsoft-standard-WSL2", "4.4.0", "4.19.0-gvisor"


def bus(machine: Machine, devices: Iterable[PciDevice]) -> Machine:
    return msgspec.structs.replace(machine, pci=tuple(devices))


def elsewhere(device: PciDevice) -> PciDevice:
    return msgspec.structs.replace(device, address=f"7{device.address[1:]}")


VIEWS: dict[str, Callable[[Machine], Machine]] = {
    "empty": lambda machine: bus(machine, ()),
    "without the GPUs": lambda machine: bus(
        machine, (device for device in machine.pci if device.kind is not PciKind.GPU)
    ),
    "without one GPU": lambda machine: bus(
        machine, (d for d in machine.pci if d.address != machine.gpus[-1].address)
    ),
    "of another machine": lambda machine: bus(machine, map(elsewhere, machine.pci)),
    "NICs alone": lambda machine: bus(
        machine, (device for device in machine.pci if device.kind is PciKind.NIC)
    ),
}


def seen(name: str, view: Callable[[Machine], Machine]) -> NodeSnapshot:
    whole = base(f"demo {name}")
    return msgspec.structs.replace(whole, machine=view(whole.machine))


@pytest.mark.parametrize(("view", "name"), turns(VIEWS, DEMOS))
def test_who_has_not_seen_the_gpus_on_the_bus_cannot_tell(name: str, view: str) -> None:
    found = diagnosed(seen(name, VIEWS[view]))
    assert found.verdict == Verdict.CANNOT_TELL
    assert "what the PCI bus shows" in [lack.what for lack in found.lacking]


@pytest.mark.parametrize("name", DEMOS)
def test_the_gpus_alone_are_enough(name: str) -> None:
    found = diagnosed(seen(name, lambda m: bus(m, (d for d in m.pci if d.kind is PciKind.GPU))))
    assert "what the PCI bus shows" not in [lack.what for lack in found.lacking]


@pytest.mark.parametrize("kernel", [WSL, GVISOR, NEWER])
def test_a_kernel_that_never_has_the_bus_lacks_nothing(kernel: str) -> None:
    lent = ("machine.host.kernel", kernel), ("machine.host.hypervisor", "hyperv")
    bare = at("demo pcie-l40s-8", *lent, ("machine.pci", []))
    assert diagnosed(bare).verdict == Verdict.HEALTHY
    # Where it shows GPUs, each has to be among them.
    whole = base("demo pcie-l40s-8").machine
    some = [msgspec.to_builtins(device) for device in whole.pci if device.kind is PciKind.GPU]
    partly = at("demo pcie-l40s-8", *lent, ("machine.pci", some[1:]))
    assert diagnosed(partly).verdict == Verdict.CANNOT_TELL


def test_an_ordinary_kernel_has_a_bus() -> None:
    ordinary = ("machine.host.kernel", "4.4.0-21-generic")
    bare = at("demo pcie-l40s-8", ordinary, ("machine.pci", []))
    assert diagnosed(bare).verdict == Verdict.CANNOT_TELL


def test_readings_of_a_gpu_that_nothing_else_knows_are_no_health() -> None:
    whole = base("demo pcie-l40s-8")
    more = (*whole.readings.gpus, GpuReading(address="0000:ff:00.0", temperature_c=40))
    readings = msgspec.structs.replace(whole.readings, gpus=more)
    found = diagnosed(msgspec.structs.replace(whole, readings=readings))
    assert found.verdict == Verdict.CANNOT_TELL
    assert found.lacking[0].devices == ("0000:ff:00.0",)


Read = dict[str, object]
UNREAD: dict[str, Read] = {
    "no vendor": {"vendor_id": None},
    "a vendor of ones": {"vendor_id": 0xFFFF},
    "a vendor of zeros": {"vendor_id": 0},
    "no class": {"class_code": None},
    "a class of zeros": {"class_code": 0},
    "a class of ones": {"class_code": 0xFFFFFF},
    "nothing": {"vendor_id": None, "class_code": None, "device_id": None, "driver": None},
}
NO_GPUS: dict[str, Read] = {
    "a NIC's class": {"vendor_id": None, "class_code": 0x020700},
    "a NIC's maker": {"vendor_id": 0x15B3, "class_code": None},
    "the screen of the management chip": {"vendor_id": 0x1A03, "class_code": 0x030000},
    "a driver of no GPU": {"vendor_id": None, "class_code": None, "driver": "mlx5_core"},
}


def unnamed(name: str, read: Read) -> NodeSnapshot:
    """One GPU is left to the bus alone, which shows it so."""
    whole = base(f"demo {name}")
    machine = whole.machine
    lost = machine.gpus[-1].address
    pci = [
        msgspec.structs.replace(device, kind=PciKind.OTHER, **read)
        if device.address == lost
        else device
        for device in machine.pci
    ]
    rest: Machine = msgspec.structs.replace(bus(machine, pci), gpus=machine.gpus[:-1])
    readings = msgspec.structs.replace(
        whole.readings, gpus=tuple(now for now in whole.readings.gpus if now.address != lost)
    )
    return msgspec.structs.replace(whole, machine=rest, readings=readings)


@pytest.mark.parametrize(("read", "name"), turns(UNREAD, DEMOS))
def test_a_function_that_nobody_names_may_be_a_gpu(name: str, read: str) -> None:
    snapshot = unnamed(name, UNREAD[read])
    found = diagnosed(snapshot)
    address = base(f"demo {name}").machine.gpus[-1].address
    assert address in [device for lack in found.lacking for device in lack.devices]
    assert found.verdict is not Verdict.HEALTHY


@pytest.mark.parametrize("read", NO_GPUS)
def test_a_function_that_is_no_gpu_for_certain_lacks_nothing(read: str) -> None:
    whole = base("demo hgx-h100-8")
    device = msgspec.structs.replace(
        whole.machine.pci[0], address="00ff:01:00.0", kind=PciKind.OTHER, **NO_GPUS[read]
    )
    more = bus(whole.machine, (*whole.machine.pci, device))
    assert diagnosed(msgspec.structs.replace(whole, machine=more)).lacking == ()
