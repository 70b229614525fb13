from __future__ import annotations

import msgspec
import pytest

from gputop import __version__
from gputop.topology.fleet.making import section_of
from gputop.topology.fleet.section import FleetSection, NodeOrigin
from gputop.topology.model.snapshot import EnvironmentVariable, Measurement, NodeSnapshot
from gputop.topology.node import Node
from gputop.topology.recorded.feeds import DemoFeed


@pytest.fixture(scope="module")
def healthy() -> NodeSnapshot:
    return DemoFeed("hgx-h100-8", version=__version__).at(0)


def section(snapshot: NodeSnapshot) -> FleetSection:
    return section_of(Node(snapshot), NodeOrigin(host="g1"))


def test_a_sick_sister_differs_where_it_is_sick(healthy: NodeSnapshot) -> None:
    sick = section(DemoFeed("sick-h100-8", version=__version__).at(0))
    well = section(healthy)
    assert sick.product == well.product == "8 × NVIDIA H100 80GB HBM3"
    odd = {name for name in well.digests if well.digests[name] != sick.digests[name]}
    assert "wiring" in odd
    assert not odd & {"driver", "firmware", "environment"}
    assert sick.facts["wiring"]["NVLinks up"] == "18 18 18 16 18 18 18 18"


def test_names_and_addresses_are_no_facts(healthy: NodeSnapshot) -> None:
    gpus = [
        msgspec.structs.replace(gpu, uuid=f"GPU-{place}", serial=f"{place}")
        for place, gpu in enumerate(healthy.machine.gpus)
    ]
    machine = msgspec.structs.replace(healthy.machine, gpus=tuple(gpus))
    other = section(msgspec.structs.replace(healthy, machine=machine))
    well = section(healthy)
    assert other.digests == well.digests
    assert other.machine != well.machine


def test_who_differs_is_named_by_place(healthy: NodeSnapshot) -> None:
    gpus = list(healthy.machine.gpus)
    gpus[3] = msgspec.structs.replace(gpus[3], ecc_enabled=False, vbios=None)
    machine = msgspec.structs.replace(healthy.machine, gpus=tuple(gpus))
    facts = section(msgspec.structs.replace(healthy, machine=machine)).facts
    assert facts["settings"]["ECC"] == "on; off at GPU3"
    assert facts["firmware"]["VBIOS"].endswith("; not told at GPU3")


def test_what_was_not_read_is_no_fact() -> None:
    empty = section(NodeSnapshot(taken_at=1.0))
    assert empty.product == ""
    assert empty.machine is None
    assert empty.facts["settings"] == empty.facts["firmware"] == {}
    assert empty.figures == ()


def test_what_engines_set_for_each_process_is_no_fact(healthy: NodeSnapshot) -> None:
    variables = tuple(
        EnvironmentVariable(name=name, value="1", origin="environment")
        for name in ("NCCL_HOSTID", "CUDA_VISIBLE_DEVICES", "NCCL_IB_HCA")
    )
    facts = section(msgspec.structs.replace(healthy, environment=variables)).facts
    assert facts["environment"] == {"NCCL_IB_HCA": "1"}


def test_figures_are_their_middle_and_their_worst(healthy: NodeSnapshot) -> None:
    gpus = [gpu.address for gpu in healthy.machine.gpus]
    figures = [
        Measurement(
            probe="p2p", quantity="write_bandwidth", unit="GB/s", src=src, dst=dst,
            value=200.0 if (src, dst) == (gpus[3], gpus[5]) else 390.0, bytes_per_copy=size,
        )
        for src in gpus for dst in gpus if src != dst for size in (2**20, 2**28)
    ]  # fmt: skip
    figures.append(
        Measurement(probe="gemm", quantity="gemm", unit="TFLOP/s", src=gpus[0], value=float("nan"))
    )
    made = section(msgspec.structs.replace(healthy, measurements=tuple(figures)))
    (found,) = made.figures
    assert made.sizes == {"memory of the host": 2048.0}
    assert (found.key, found.over, found.count) == ("p2p write_bandwidth", "NV18", 56)
    assert (found.value, found.worst, found.at) == (390.0, 200.0, "GPU3 to GPU5")
    assert found.low is not None
    assert 200.0 < found.low < 390.0
