"""The demo mi250x-8 against public records of such a blade, HPE's Cray EX235a.

PCI addresses, NUMA nodes and NICs: hwloc's view of LLNL's Tioga (LLNL/mpibind,
topo-xml/eas-tioga.xml, 2023) and the lstopo of a Frontier node in mpibind's tutorials. RCCL's own
models of the node: ROCm/rccl src/graph/rome_models.cc, rome_model_73 (one host: no NIC takes part)
and rome_model_74 (several hosts). Interfaces: the log of RCCL 2.20.5 on LUMI in the README of
`RCCL-tests` for that machine, with NCCL_SOCKET_IFNAME=hsn.
"""

from __future__ import annotations

import msgspec
import pytest

from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.prediction import Prediction
from gputop.topology.nccl.settings import Settings
from gputop.topology.recorded.feeds import DemoFeed
from gputop.topology.wiring.relations import matrix
from tests.support.snapshots import demo_node

GCDS = {"c1": 3, "c6": 3, "c9": 1, "ce": 1, "d1": 0, "d6": 0, "d9": 2, "de": 2}
"""Bus and NUMA node of each GCD."""
NICS = {"hsn0": ("c5", 3), "hsn1": ("cd", 1), "hsn2": ("d5", 0), "hsn3": ("dd", 2)}
ROOT_OF = {
    "c1": "c0:07.1", "c6": "c4:07.1", "c9": "c8:07.1", "ce": "cc:07.1",
    "d1": "d0:07.1", "d6": "d4:07.1", "d9": "d8:07.1", "de": "dc:07.1",
    "c5": "c4:01.1", "cd": "cc:01.1", "d5": "d4:01.1", "dd": "dc:01.1",
}  # fmt: skip
"""The root port above each bus."""


def predicted(nodes: int = 1, library: str | None = None, **wanted: str) -> Prediction:
    snapshot = DemoFeed("mi250x-8").at(0)
    return predict(snapshot, Settings.of(snapshot, wanted), nodes=nodes, library=library)


def model(found: Prediction) -> str:
    return found.views[0].steps["model"][0].answer


def test_gpus_and_nics_are_where_they_are_on_the_blade() -> None:
    machine = demo_node("mi250x-8").snapshot.machine
    assert {gpu.address[5:7]: gpu.numa_node for gpu in machine.gpus} == GCDS
    fabric = [interface for interface in machine.interfaces if interface.name.startswith("hsn")]
    assert {nic.name: ((nic.address or "")[5:7], nic.numa_node) for nic in fabric} == NICS
    assert {nic.speed_mbps for nic in fabric} == {200_000}
    devices = {device.address: device for device in machine.pci}
    for bus, port in ROOT_OF.items():
        assert devices[f"0000:{bus}:00.0"].parent == f"0000:{port}"
    host = machine.host
    assert host is not None
    assert (host.cpu_family, host.cpu_model, len(host.sockets), len(host.numa)) == (25, 48, 1, 4)


def test_a_slingshot_nic_is_near_the_package_whose_bridge_it_shares() -> None:
    found = matrix(demo_node("mi250x-8").snapshot.machine)
    assert dict(found.nics) == {f"NIC{i}": f"hsn{i}" for i in range(4)}
    rows = {row.label: row for row in found.rows}
    labels = [row.label for row in found.rows]
    cells = dict(zip(labels, rows["NIC1"].cells, strict=True))
    near = {label: cells[label].code for label in labels if cells[label].code != "SYS"}
    assert near == {"NIC1": "X", "GPU2": "NODE", "GPU3": "PHB"}


@pytest.mark.parametrize("library", [None, "rccl-2.26.6", "rccl-2.30.4"])
def test_rccl_knows_the_blade_and_takes_its_rings(library: str | None) -> None:
    """2.30.4 as well: the sync with NCCL lost model and half of the channels, and
    ROCm/rocm-systems pull request 7792 brought them back before the release."""
    found = predicted(library=library)
    assert not found.views[0].nets  # ncclTopoTrimSystem takes the NICs out of a single host
    assert model(found) == "yes: rome_model_73"
    ring = found.views[0].graphs.ring
    assert ring is not None
    assert ring.orders == (
        (0, 1, 3, 2, 4, 5, 7, 6),
        (6, 7, 5, 4, 2, 3, 1, 0),
        (0, 1, 5, 4, 6, 7, 3, 2),
        (2, 3, 7, 6, 4, 5, 1, 0),
    )


@pytest.mark.parametrize(
    ("wanted", "answer", "channels"),
    [
        # The interface for the management of the blade is a fifth NIC to RCCL's sockets.
        ({}, "no", 4),
        ({"NCCL_SOCKET_IFNAME": "hsn"}, "yes: rome_model_74", 8),
    ],
)
def test_the_interfaces_decide_whether_rccl_knows_it_on_two_hosts(
    wanted: dict[str, str], answer: str, channels: int
) -> None:
    found = predicted(nodes=2, **wanted)
    assert model(found) == answer
    ring = found.views[0].graphs.ring
    assert ring is not None
    assert ring.channels == channels
    assert [text for text in found.assumptions if "aws-ofi-rccl" in text]


@pytest.mark.parametrize(
    ("plugins", "reason"),
    [
        (None, "is not known"),
        ((), "no plugin such as aws-ofi-rccl"),
        (("/opt/lib/librccl-net.so",), "and librccl-net.so is installed"),
    ],
)
def test_a_plugin_that_was_looked_for_is_not_called_unknown(
    plugins: tuple[str, ...] | None, reason: str
) -> None:
    snapshot = DemoFeed("mi250x-8").at(0)
    assert snapshot.machine.software is not None
    software = msgspec.structs.replace(snapshot.machine.software, nccl_plugins=plugins)
    machine = msgspec.structs.replace(snapshot.machine, software=software)
    found = predict(msgspec.structs.replace(snapshot, machine=machine))
    (note,) = (text for text in found.assumptions if "Slingshot" in text)
    assert reason in note
