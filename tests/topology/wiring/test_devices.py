"""The index of devices: every key finds the device, and the index is made once."""

from __future__ import annotations

import msgspec

from gputop.topology.node import Node
from gputop.topology.wiring.devices import devices_of
from tests.support.app import demo_report


def test_each_key_of_a_gpu_finds_it() -> None:
    node = demo_report("sick-h100-8").node
    for number, gpu in enumerate(node.snapshot.machine.gpus):
        for key in (gpu.address, gpu.address.upper(), gpu.uuid, f"GPU{number}", f"gpu{number}"):
            assert node.devices.gpu(key) is gpu
        assert node.devices.name(gpu.address) == f"GPU{number}"
        assert gpu not in node.devices.siblings(gpu)
        assert len(node.devices.siblings(gpu)) == 7
    assert node.devices.gpu(None) is node.devices.gpu("") is node.devices.gpu("GPU99") is None
    assert node.devices.names(["a", "b"]) == "a and b"


def test_a_way_up_ends_at_the_root_port() -> None:
    node = demo_report("hgx-h100-8").node
    gpu = node.snapshot.machine.gpus[0]
    way = node.devices.way_up(gpu.address)
    assert way[0].address == gpu.address
    assert [device.address for device in way[1:]] == list(node.devices.above(gpu.address)[:-1])
    assert node.devices.way_up("0000:ff:00.0") == ()


def test_the_index_is_made_once_for_a_machine_and_is_no_part_of_it() -> None:
    snapshot = demo_report("hgx-h100-8").snapshot
    assert devices_of(snapshot.machine) is Node(snapshot).devices
    other = msgspec.structs.replace(snapshot.machine, gpus=snapshot.machine.gpus[:4])
    assert len(devices_of(other).gpus) == 4
    again = msgspec.json.decode(msgspec.json.encode(snapshot.machine), type=type(other))
    assert again == snapshot.machine
