"""Parts of several sources become one machine."""

from __future__ import annotations

from gputop.topology.model.machine import Gpu, GpuPair, PciDevice
from gputop.topology.model.part import Part
from gputop.topology.model.record import Gap
from gputop.topology.sources.collect import merge_machine

ADDRESS = "0000:01:00.0"


def device(address: str = ADDRESS, **more: object) -> PciDevice:
    values: dict[str, object] = {
        "address": address,
        "parent": "pci0000:00",
        "kind": "gpu",
        "vendor_id": 0x10DE,
        "device_id": 0x2335,
        **more,
    }
    return PciDevice(**values)  # type: ignore[arg-type]


def test_the_first_source_wins_a_field_and_gaps_go_when_another_knows() -> None:
    first = Gpu(
        address=ADDRESS,
        vendor="nvidia",
        name="A",
        gaps=(Gap("serial", "Not Supported"), Gap("vbios", "Not Supported")),
    )
    second = Gpu(address=ADDRESS, vendor="nvidia", name="B", serial="1")
    (gpu,) = merge_machine([Part(gpus=(first,)), Part(gpus=(second,))]).gpus
    assert (gpu.name, gpu.serial) == ("A", "1")
    assert [gap.field for gap in gpu.gaps] == ["vbios"]


def test_a_gpu_without_library_is_shown_with_the_reason() -> None:
    (gpu,) = merge_machine([Part(pci=(device(),))]).gpus
    assert gpu.uuid is None
    assert "no management library" in (gpu.why("uuid") or "")


def test_the_display_chip_of_the_server_is_no_gpu() -> None:
    assert merge_machine([Part(pci=(device(vendor_id=0x1A03),))]).gpus == ()


def test_what_pci_knows_completes_a_gpu() -> None:
    gpu = Gpu(address=ADDRESS, vendor="nvidia", gaps=(Gap("numa_node", "unknown"),))
    (merged,) = merge_machine([Part(gpus=(gpu,)), Part(pci=(device(numa_node=1),))]).gpus
    assert merged.numa_node == 1
    assert merged.why("numa_node") is None


def test_a_text_without_addresses_is_joined_by_index() -> None:
    real = Gpu(address=ADDRESS, vendor="nvidia", index=0, name="real")
    named = Gpu(address="topo:GPU0", vendor="nvidia", index=0)
    other = Gpu(address="topo:GPU1", vendor="nvidia", index=1)
    pair = GpuPair(src="topo:GPU0", dst="topo:GPU1", nvlinks_reported=4)
    machine = merge_machine([Part(gpus=(real,)), Part(gpus=(named, other), pairs=(pair,))])
    assert [gpu.address for gpu in machine.gpus] == [ADDRESS, "topo:GPU1"]
    assert machine.pairs[0].src == ADDRESS
