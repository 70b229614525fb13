"""Parts of a package have the same names whichever source lists them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gputop.topology.hardware.amd_parts import numbered
from gputop.topology.model.machine import Gpu
from gputop.topology.model.part import PartialNode
from gputop.topology.recorded.load import load
from gputop.topology.sources.amd import parse_machine as amdsmi
from gputop.topology.sources.collect import merge_machine
from gputop.topology.sources.files.tree import FolderTree
from gputop.topology.sources.kfd import kfd
from tests.support.amdsmi import fake
from tests.support.amdsmi.fake import asked

from ....support import kfd_trees

PACKAGE = "0000:0c:00.0"


def of_amdsmi(parts: tuple[int, ...], mode: str, *, numbered: bool) -> PartialNode:
    """Some parts of one package. `told`: the driver gives their numbers."""
    binding = fake.Binding("7")
    devices: list[dict[str, Any]] = []
    for part in parts:
        device = copy.deepcopy(binding.raw["devices"][0])
        device["index"] = len(devices)
        device["amdsmi_get_gpu_device_bdf"] = f"0000:0c:00.{part}"
        # Modes are told at the first part alone (ROCm/amdsmi issue 100).
        words = (mode, "NPS1") if part == 0 else ("N/A", "N/A")
        device["amdsmi_get_gpu_compute_partition"] = words[0]
        device["amdsmi_get_gpu_memory_partition"] = words[1]
        device["amdsmi_get_gpu_kfd_info"]["current_partition_id"] = part if numbered else "N/A"
        device["pairs"] = []
        devices.append(device)
    binding.raw["devices"] = devices
    binding.handles = binding.handles[: len(devices)]
    return amdsmi.parse(asked(binding))


def of_kfd(root: Path, parts: tuple[int, ...], mode: str) -> PartialNode:
    """The same package in KFD's topology; nodes of the other parts are hidden."""
    tree = kfd_trees.Tree(root)
    for place in range(2):
        tree.gpu(2 + place, f"0000:0c:00.{place}", 0x74A1, 90402, cpu=0, num_xcc=4)
    tree.device(PACKAGE, current_compute_partition=mode, current_memory_partition="NPS1")
    raw = kfd.read(FolderTree(root))
    for place in range(2):
        if place not in parts:
            raw["nodes"][str(2 + place)] = {"properties": {"error": "no permission"}}
    return kfd.SOURCE.parse(raw)


def names(*parts: PartialNode) -> list[tuple[str, str | None, str | None, str | None, str | None]]:
    return [
        (gpu.address, gpu.partition, gpu.parent, gpu.compute_partition, gpu.memory_partition)
        for gpu in merge_machine(parts).gpus
    ]


@pytest.mark.parametrize("parts", [(0, 1), (0,)])
@pytest.mark.parametrize("numbered", [True, False])
def test_amdsmi_alone_names_parts_as_kfd_does(
    tmp_path: Path, parts: tuple[int, ...], numbered: bool
) -> None:
    smi, kernel = of_amdsmi(parts, "DPX", numbered=numbered), of_kfd(tmp_path, parts, "DPX")
    expected = [(f"0000:0c:00.{part}", str(part), PACKAGE, "DPX", "NPS1") for part in parts]
    assert names(smi) == names(kernel) == names(smi, kernel) == expected


def test_one_later_part_alone_is_a_part_too(tmp_path: Path) -> None:
    smi, kernel = of_amdsmi((1,), "DPX", numbered=True), of_kfd(tmp_path, (1,), "DPX")
    # The modes stand at a part that this container lacks; sysfs shows them.
    assert names(smi) == [("0000:0c:00.1", "1", PACKAGE, None, None)]
    assert names(kernel) == [("0000:0c:00.1", "1", PACKAGE, "DPX", "NPS1")]
    assert names(smi, kernel) == names(kernel)


def test_whole_gpus_stay_whole() -> None:
    part = amdsmi.parse(asked(fake.Binding("7")))
    assert {(gpu.partition, gpu.parent) for gpu in merge_machine([part]).gpus} == {(None, None)}


def test_parts_out_of_files_of_amd_smi_are_named_alike(tmp_path: Path) -> None:
    """`list` names the addresses, `static` the modes; made by hand in the form of 7.x."""
    listed = [{"gpu": n, "bdf": f"0000:0c:00.{n}", "partition_id": n} for n in range(2)]
    static = {"gpu_data": [
        {"gpu": 0, "partition": {"accelerator_partition": "DPX", "memory_partition": "NPS1"}},
        {"gpu": 1, "partition": {"accelerator_partition": "N/A", "memory_partition": "N/A"}},
    ]}  # fmt: skip
    for name, document in (("list", listed), ("static", static)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    gpus = load([str(tmp_path)]).snapshot.machine.gpus
    assert [(gpu.partition, gpu.parent, gpu.compute_partition) for gpu in gpus] == [
        ("0", PACKAGE, "DPX"), ("1", PACKAGE, "DPX"),
    ]  # fmt: skip
    assert {gpu.why("compute_partition") for gpu in gpus} == {None}


def test_only_amds_addresses_are_read_as_parts() -> None:
    gpus = {
        address: Gpu(address=address, vendor=vendor)
        for address, vendor in (
            ("0000:0c:00.0", "nvidia"), ("0000:0c:00.1", "nvidia"), ("topo:AMD0", "amd"),
            ("0000:0d:00.0", "amd"), ("", "amd"), ("7", "amd"),
        )
    }  # fmt: skip
    assert numbered(gpus) == gpus
