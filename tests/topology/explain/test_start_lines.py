"""The lines to copy run in a shell, and hold what the runtime, numactl and the library count."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.topology.explain.start_lines import start_lines
from gputop.topology.model.machine import Gpu
from gputop.topology.node import Node
from tests.support.expectation_made import change_gpu
from tests.support.snapshots import demo_node

NAMES = ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "NCCL_IB_HCA")


def lines_of(node: Node, *numbers: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    gpus = [node.machine.gpus[number].address for number in numbers]
    return start_lines(node.decide(), gpus)


def carried_out(lines: tuple[str, ...], folder: Path) -> tuple[dict[str, str], list[str]]:
    """The variables that a shell has after these lines, and what numactl was given."""
    for name in ("numactl", "PROGRAM"):
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*"\n', encoding="ascii")
        (folder / name).chmod(0o700)
    shown = "\n".join((*lines, *(f'echo "{name}=${name}"' for name in NAMES)))
    out = subprocess.run(
        ["/bin/sh", "-euc", shown.replace("$NAME", "")],
        env={"PATH": f"{folder}:/usr/bin:/bin", **dict.fromkeys(NAMES, "")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    variables = dict(line.split("=", 1) for line in out if line.split("=", 1)[0] in NAMES)
    return variables, [line for line in out if line.startswith("numactl")]


def test_nvidia_is_numbered_in_pci_order_and_bound_by_node(tmp_path: Path) -> None:
    lines, _ = lines_of(demo_node("dgx-1v"), 7, 0)
    variables, bound = carried_out(lines, tmp_path)
    assert variables == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "7,0",
        "HIP_VISIBLE_DEVICES": "",
        "NCCL_IB_HCA": "=mlx5_3:1,mlx5_0:1",
    }
    assert bound == [
        "numactl --cpunodebind=1 --membind=1 PROGRAM",
        "numactl --cpunodebind=0 --membind=0 PROGRAM",
    ]
    assert [line.partition("#")[2] for line in lines if "#" in line] == [" rank 0", " rank 1"]


def test_amd_is_numbered_by_kfd_node(tmp_path: Path) -> None:
    node = demo_node("mi300x-8")
    gpus = node.machine.gpus
    turned = [msgspec.structs.replace(gpu, kfd_node=20 - number) for number, gpu in enumerate(gpus)]
    snapshot = msgspec.structs.replace(
        node.snapshot, machine=msgspec.structs.replace(node.machine, gpus=tuple(turned))
    )
    variables, _ = carried_out(lines_of(Node(snapshot), 0, 1)[0], tmp_path)
    assert (variables["HIP_VISIBLE_DEVICES"], variables["CUDA_VISIBLE_DEVICES"]) == ("7,6", "")


def changed(number: int, **facts: Any) -> Node:
    return Node(change_gpu(demo_node("pcie-l40s-8").snapshot, number, **facts))


def test_beside_mig_only_uuids_are_sure() -> None:
    node = changed(3, mig_enabled=True)
    uuids = [gpu.uuid for gpu in node.machine.gpus[:2]]
    lines, _ = lines_of(node, 0, 1)
    assert lines[0] == f"export CUDA_VISIBLE_DEVICES={uuids[0]},{uuids[1]}"
    unnamed = Node(change_gpu(node.snapshot, 0, uuid=None))
    lines, notes = lines_of(unnamed, 0, 1)
    assert not any("VISIBLE" in line for line in lines)
    assert "how the runtime numbers these GPUs is not known" in notes


def test_an_unknown_numa_node_gives_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(gpu: Gpu) -> int | None:
        return None if gpu.index == 1 else 0

    monkeypatch.setattr("gputop.topology.explain.start_lines.gpu_numa", nowhere)
    lines, notes = lines_of(demo_node("pcie-l40s-8"), 0, 1)
    assert [line for line in lines if "numactl" in line] == [
        "numactl --cpunodebind=0 --membind=0 PROGRAM  # rank 0"
    ]
    assert "the NUMA node of GPU1 is not known: no line of numactl" in notes


def test_a_name_that_a_shell_would_run_is_in_no_line() -> None:
    node = demo_node("pcie-l40s-8")
    nic = msgspec.structs.replace(node.machine.rdma[0], name='x";touch /tmp/y;"')
    machine = msgspec.structs.replace(node.machine, rdma=(nic, *node.machine.rdma[1:]))
    lines, _ = lines_of(Node(msgspec.structs.replace(node.snapshot, machine=machine)), 0, 1)
    assert not any("touch" in line for line in lines)
