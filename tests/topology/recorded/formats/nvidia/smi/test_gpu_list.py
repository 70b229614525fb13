"""`nvidia-smi -L` as it is pasted: lists that are repeated, out of order, and without an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.model.part import PartialNode
from gputop.topology.recorded.formats.nvidia.smi.gpu_list import FORMAT
from gputop.topology.sources.nvidia.smi_values import MAX_ITEMS

GPU = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)"


def mig(number: int, profile: str = "1g.10gb") -> str:
    return (
        f"  MIG {profile}     Device  {number}: (UUID: MIG-{number:08}-0000-0000-0000-000000000000)"
    )


def names(*lines: str) -> list[tuple[int, str | None]]:
    part = FORMAT.parse("\n".join(lines).encode(), Path("list.txt"))
    assert isinstance(part, PartialNode)
    return [(device.index, device.name) for device in part.gpus[0].mig_instances]


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_list_that_is_there_again_is_read_once(times: int) -> None:
    listed = (mig(0, "3g.40gb"), mig(1, "2g.20gb"), mig(2))
    found = names(GPU, *(listed * times))
    assert found == [(0, "MIG 3g.40gb"), (1, "MIG 2g.20gb"), (2, "MIG 1g.10gb")]


def test_a_device_keeps_its_first_profile_whatever_follows() -> None:
    found = names(GPU, mig(3, "3g.40gb"), mig(1), "", mig(3, "4g.41gb"), mig(0))
    assert found == [(3, "MIG 3g.40gb"), (1, "MIG 1g.10gb"), (0, "MIG 1g.10gb")]


@pytest.mark.parametrize("many", [MAX_ITEMS - 1, MAX_ITEMS, MAX_ITEMS + 1, 9999])
def test_a_list_without_an_end_is_cut(many: int) -> None:
    found = names(GPU, *map(mig, range(many)))
    assert len(found) == min(many, MAX_ITEMS)
    assert {name for _, name in found} == {"MIG 1g.10gb"}
