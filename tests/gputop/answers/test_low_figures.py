"""What the command line says of low figures and of those that nothing judges."""

from __future__ import annotations

from gputop.measuring.expected import Expecting
from gputop.topology.model.snapshot import Measurement, NodeSnapshot
from tests.support.expectation_made import (
    CUBE,
    addresses,
    change_gpu,
    demo,
    figure,
    matrix,
    with_machine,
)
from tests.support.runs import figures_text


def low_line(snapshot: NodeSnapshot, *figures: Measurement) -> str:
    names = {gpu.address: f"GPU{gpu.index}" for gpu in snapshot.machine.gpus}
    text = figures_text(Expecting(snapshot, names).of(figures), names)
    assert max(len(line) for line in text.splitlines()) <= 80
    return " ".join(text.split())


def test_each_gpu_has_its_own_cause_or_none() -> None:
    snapshot = change_gpu(demo("hgx-h100-8"), 1, power_limit_watts=350.0)
    gpus = addresses(snapshot)
    hot = {"throttle": ["hw-thermal"]}
    text = low_line(
        snapshot,
        figure("gemm", 700.0, gpus[0], variant=CUBE),
        figure("gemm", 420.0, gpus[1], variant=CUBE, details={"throttle": ["sw-power-cap"]}),
        figure("gemm", 430.0, gpus[2], variant=CUBE, details=hot),
        figure("gemm", 440.0, gpus[3], variant=CUBE),
    )
    assert (
        "GPU1 has a power limit of 350 W instead of 700 W; GPU2 was slowed down by its temperature "
        "(hardware); of GPU3 no cause was seen"
    ) in text


def test_causes_of_many_gpus_are_counted() -> None:
    snapshot = demo("hgx-h100-8")
    slots = {"pcie_generation": 5, "pcie_width": 8}
    low = [
        figure("h2d_bandwidth", 27.0, gpu, variant="pinned", details=slots)
        for gpu in addresses(snapshot)
    ]
    text = low_line(snapshot, *low)
    assert text.count("runs at PCIe gen5 x8 instead of gen5 x16") == 4
    assert "; 4 more causes, which --json has" in text


def test_a_reference_and_an_estimate_are_told_apart() -> None:
    snapshot = demo("pcie-l40s-8")
    text = low_line(snapshot, *matrix(snapshot, lambda i, j: 25.0))
    assert "healthy is about 26.3 GB/s (typical), of the others by an estimate 22.2" in text


def test_a_node_that_no_table_holds_hears_why() -> None:
    snapshot = demo("pcie-l40s-8")
    gpus = tuple(snapshot.machine.gpus[:1])
    snapshot = with_machine(snapshot, gpus=gpus, pairs=())
    snapshot = change_gpu(snapshot, 0, name="Orin (nvgpu)", pci_id=None)
    text = low_line(snapshot, figure("memory_copy", 150.0, gpus[0].address, bytes_per_copy=2 << 30))
    assert text.endswith("no reference: no table holds this model")


def test_what_has_a_reference_hears_no_reason_for_none() -> None:
    snapshot = demo("hgx-h100-8")
    text = low_line(snapshot, figure("gemm", 700.0, addresses(snapshot)[0], variant=CUBE))
    assert "no reference:" not in text
