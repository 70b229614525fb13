"""RCCL's decisions by way of the machine: XML -> records -> the graph RCCL would find -> pairs.

The recorded topologies name whole switches, where /sys has a port on either side; ports are put
in again, so that the detection walks a tree as it is on a machine.
"""

from __future__ import annotations

import re

import msgspec
import pytest

from gputop.topology.model.machine import Machine, PciDevice, PciKind
from gputop.topology.model.snapshot import NodeSnapshot
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.settings import Settings
from tests.support.nccl.captures import expected, names, snapshot_of
from tests.support.places import CAPTURES
from tests.topology.nccl.decide.test_captures import net_misses, pair_misses, skip_search

FOLDER = "rccl-2.21.5-graph"
NAMES = names(FOLDER)
NO_GDR = re.compile(r'<gpu [^>]*gdr="0"')

pytestmark = pytest.mark.skipif(not NAMES, reason="the recorded decisions are not here")


def with_ports(machine: Machine) -> Machine:
    """A port above every device, as a switch's downstream port and a root port are."""
    devices: list[PciDevice] = []
    for number, device in enumerate(machine.pci):
        port = PciDevice(
            address=f"f{number:03x}:00:00.0",
            parent=device.parent,
            kind=PciKind.BRIDGE,
            class_code=0x060400,
            numa_node=device.numa_node,
            link_speed_max_gts=device.link_speed_max_gts,
            link_width_max=device.link_width_max,
        )
        devices += [port, msgspec.structs.replace(device, parent=port.address)]
    return msgspec.structs.replace(machine, pci=tuple(devices), nccl_topology=None)


def discovered(name: str) -> NodeSnapshot:
    snapshot = snapshot_of(CAPTURES / FOLDER / "topologies" / f"{name}.xml")
    return msgspec.structs.replace(snapshot, machine=with_ports(snapshot.machine))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_discovered_is_decided_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_search(monkeypatch)
    misses: list[str] = []
    snapshot = discovered(name)
    text = (CAPTURES / FOLDER / "topologies" / f"{name}.xml").read_text()
    for entry in expected(FOLDER, name):
        found = predict(snapshot, Settings(entry["env"]))
        assert found.library.name == "rccl"
        views = entry["single_node"]["views"]
        assert len(found.views) == len(views), entry["env"]
        for view in views:
            mine = next(shown for shown in found.views if set(shown.ranks) == set(view["ranks"]))
            misses += [f"{entry['env']}: {miss}" for miss in pair_misses(found, view)]
            # No record says that a GPU cannot do GPUDirect RDMA, as some of these files do.
            if not NO_GDR.search(text):
                misses += [f"{entry['env']}: {miss}" for miss in net_misses(mine, view)]
    assert not misses, misses[:5]


def test_most_files_say_that_gpus_can_do_gpudirect_rdma() -> None:
    folder = CAPTURES / FOLDER / "topologies"
    assert sum(NO_GDR.search((folder / f"{name}.xml").read_text()) is None for name in NAMES) > 14
