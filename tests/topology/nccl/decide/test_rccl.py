"""RCCL: conditions of P2P, versions, visible devices, known nodes, and words of its own."""

from __future__ import annotations

import re

import msgspec
import pytest

from gputop.printing.render import texts
from gputop.topology.explain.prediction import prediction_blocks
from gputop.topology.model.machine import GpuPair
from gputop.topology.model.snapshot import DataVerdict, Measurement, NodeSnapshot
from gputop.topology.model.surroundings import Host
from gputop.topology.nccl.decide.predict import predict
from gputop.topology.nccl.prediction import DecisionStep, PairDecision
from gputop.topology.nccl.settings import Settings
from gputop.topology.recorded.feeds import DemoFeed
from tests.topology.nccl.made import AMD, INTEL, cpu, gpu, snapshot, system

GIB = 1 << 30


def node(kind: str = AMD, *, arch: str = "gfx90a", linked: bool = False) -> NodeSnapshot:
    """Two AMD GPUs on one CPU, with or without an xGMI link."""
    links = [[("0000:03:00.0", 1, "0x120000")], [("0000:02:00.0", 1, "0x120000")]]
    gpus = [gpu(2 + i, i, links[i] if linked else ()) for i in (0, 1)]
    xml = system(cpu(0, *gpus, kind=kind), version="2").replace("nvlink", "xgmi")
    xml = xml.replace('"0x030200"', '"0x120000"')
    return snapshot(xml.replace(' sm="90"', f' sm="104" gcn="{arch}" arch="94"'))


def changed(
    snapshot: NodeSnapshot, *, bar: int | None = None, iommu: str | None = None, **machine: object
) -> NodeSnapshot:
    """With BARs of so many GiB of 64, and an IOMMU of this type."""
    gpus = snapshot.machine.gpus
    if bar is not None:
        gpus = tuple(
            msgspec.structs.replace(gpu, memory_bytes=64 * GIB, bar1_bytes=bar * GIB)
            for gpu in gpus
        )
    pci = tuple(
        msgspec.structs.replace(device, iommu_type=iommu) for device in snapshot.machine.pci
    )
    new = msgspec.structs.replace(snapshot.machine, gpus=gpus, pci=pci, **machine)
    return msgspec.structs.replace(snapshot, machine=new)


def decided(snapshot: NodeSnapshot, env: dict[str, str] | None = None, **rest: str) -> PairDecision:
    found = predict(snapshot, Settings(env or {}), **rest)  # type: ignore[arg-type]
    pair = found.pair(0, 1)
    assert pair is not None
    return pair


def asked(pair: PairDecision, part: str) -> DecisionStep | None:
    return next((step for step in pair.steps if part in step.question), None)


def test_a_small_bar_ends_p2p_over_pcie_and_not_over_xgmi() -> None:
    small = decided(changed(node(), bar=1))
    assert small.transport == "SHM"
    step = asked(small, "BAR")
    assert step is not None
    assert (step.answer, step.basis) == ("no", "read")
    assert "0000:02:00.0 shows 1.0 GiB of 64" in step.because
    access = asked(small, "runtime")
    assert access is not None
    assert access.decides
    assert access.because == step.because
    assert decided(changed(node(), bar=64)).transport == "P2P"
    linked = decided(changed(node(linked=True), bar=1))
    assert linked.transport == "P2P"
    assert asked(linked, "BAR") is None
    assert asked(linked, "IOMMU") is None


def test_what_is_not_known_is_assumed_and_said() -> None:
    pair = decided(node())
    for part in ("fine-grained", "BAR", "IOMMU"):
        step = asked(pair, part)
        assert step is not None
        assert (step.answer, step.basis) == ("yes", "assumed")
    assert pair.transport == "P2P"


def test_a_probe_beats_what_the_bar_lets_expect() -> None:
    small = changed(node(), bar=1)
    answer = Measurement(
        probe="p2p",
        quantity="can_access",
        src="0000:02:00.0",
        dst="0000:03:00.0",
        verdict=DataVerdict.GRANTED,
    )
    pair = decided(msgspec.structs.replace(small, measurements=(answer,)))
    assert pair.transport == "P2P"
    step = asked(pair, "runtime")
    assert step is not None
    assert step.basis == "measured"


def test_the_iommu_is_reported_and_decides_nothing() -> None:
    for kind, answer in (("identity", "yes"), ("DMA-FQ", "no")):
        pair = decided(changed(node(), iommu=kind))
        step = asked(pair, "IOMMU")
        assert step is not None
        assert (step.answer, step.basis, step.decides) == (answer, "read", False)
        assert pair.transport == "P2P"
    passing = decided(changed(node(), host=Host(cmdline_flags=("iommu=pt",))))
    step = asked(passing, "IOMMU")
    assert step is not None
    assert (step.answer, step.basis) == ("yes", "read")
    assert "iommu=pt" in step.because


def test_the_drivers_no_ends_p2p() -> None:
    pairs = tuple(
        GpuPair(src=src, dst=dst, p2p_read="not supported")
        for src, dst in (("0000:02:00.0", "0000:03:00.0"), ("0000:03:00.0", "0000:02:00.0"))
    )
    pair = decided(changed(node(), pairs=pairs))
    assert pair.transport == "SHM"
    step = asked(pair, "runtime")
    assert step is not None
    assert "not supported" in step.because


def test_fine_grained_memory_by_its_variable() -> None:
    pair = decided(node(), {"HSA_FORCE_FINE_GRAIN_PCIE": "1"})
    step = asked(pair, "fine-grained")
    assert step is not None
    assert step.because == "HSA_FORCE_FINE_GRAIN_PCIE=1"


@pytest.mark.parametrize(
    ("version", "kind", "env", "transport"),
    [
        ("2.21.5", AMD, {}, "P2P"),
        ("2.21.5", INTEL, {}, "SHM"),
        ("2.21.5", INTEL, {"NCCL_P2P_LEVEL": "SYS"}, "P2P"),
        ("2.26.6", INTEL, {"NCCL_P2P_LEVEL": "SYS"}, "P2P"),
        ("2.30.4", INTEL, {"NCCL_P2P_LEVEL": "SYS"}, "SHM"),
        ("2.30.4", AMD, {"NCCL_P2P_LEVEL": "XGMI"}, "SHM"),
        ("2.30.4", AMD, {}, "P2P"),
    ],
)
def test_levels_by_version(version: str, kind: str, env: dict[str, str], transport: str) -> None:
    pair = decided(node(kind), env, library=f"rccl-{version}")
    assert pair.transport == transport
    step = asked(pair, "near enough")
    assert step is not None
    overruled = version == "2.30.4" and kind == INTEL
    assert ("is ignored: this version sets the limit" in step.because) == overruled


@pytest.mark.parametrize(
    ("arch", "version", "gbs"),
    [
        ("gfx906", "2.21.5", 24.0), ("gfx90a", "2.21.5", 36.0), ("gfx942", "2.21.5", 48.0),
        ("gfx950", "2.21.5", 24.0), ("gfx950", "2.26.6", 48.0), ("gfx1250", "2.30.4", 64.0),
        ("gfx942", "2.30.4", 48.0), ("gfx940", "2.30.4", 24.0),
    ],
)  # fmt: skip
def test_xgmi_rates_by_version(arch: str, version: str, gbs: float) -> None:
    pair = decided(node(linked=True, arch=arch), library=f"rccl-{version}")
    assert (pair.path, pair.bandwidth_gbs) == ("XGMI", gbs)


def test_a_version_that_knows_the_gpu_is_assumed() -> None:
    for arch, version in (("gfx942", "2.21.5"), ("gfx950", "2.26.6")):
        found = predict(node(linked=True, arch=arch), Settings())
        assert (found.library.name, found.library.version) == ("rccl", version)
        assert any("no installed RCCL was found" in text for text in found.assumptions)


@pytest.mark.parametrize(
    ("env", "left"),
    [
        ({"HIP_VISIBLE_DEVICES": "0,1,2"}, (0, 1, 2)),
        ({"CUDA_VISIBLE_DEVICES": "5,6"}, (5, 6)),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "5,6"}, (1,)),
        ({"ROCR_VISIBLE_DEVICES": "4,5,6,7", "HIP_VISIBLE_DEVICES": "1,2"}, (5, 6)),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, (2, 3)),
        ({"HIP_VISIBLE_DEVICES": "6,1"}, (6, 1)),
        ({"ROCR_VISIBLE_DEVICES": "7,3,5", "HIP_VISIBLE_DEVICES": "2,0"}, (5, 7)),
    ],
)
def test_visible_devices_in_two_layers(env: dict[str, str], left: tuple[int, ...]) -> None:
    shown = DemoFeed("mi300x-8").at(0)
    addresses = sorted(gpu.address for gpu in shown.machine.gpus)
    found = predict(shown, Settings(env))
    ranked = sorted({(pair.src, pair.src_bus_id) for pair in found.pairs})
    if len(left) > 1:
        assert [address for _, address in ranked] == [addresses[index] for index in left]
    assert found.ranks == len(left)


def test_hip_counts_by_kfd_node() -> None:
    shown = DemoFeed("mi300x-8").at(0)
    gpus = tuple(
        msgspec.structs.replace(gpu, kfd_node=9 - number)
        for number, gpu in enumerate(sorted(shown.machine.gpus, key=lambda gpu: gpu.address))
    )
    machine = msgspec.structs.replace(shown.machine, gpus=gpus)
    found = predict(msgspec.structs.replace(shown, machine=machine), Settings())
    pair = found.pair(0, 1)
    assert pair is not None
    assert (pair.src_bus_id, pair.dst_bus_id) == (gpus[7].address, gpus[6].address)


WRONG = re.compile(r"\bNCCL\b(?!_)|NVLink|NVML|CUDA(?!_)|cuda")


@pytest.mark.parametrize("demo", ["mi300x-8", "mi250x-8", "mi355x-8", "sick-mi300x-8"])
def test_a_prediction_for_amd_has_amds_words(demo: str) -> None:
    found = predict(DemoFeed(demo).at(0), Settings())
    said = [
        line
        for pair in (None, (0, 1), (0, 7))
        for line in texts(prediction_blocks(found, pair), 100)
    ]
    assert not [line for line in said if WRONG.search(line)]
    assert any("RCCL" in line for line in said)
