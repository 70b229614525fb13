"""What the details of an AMD GPU say of its compute units, caches and memory banks."""

from __future__ import annotations

import pytest

from gputop.screens.node.detail import chip_facts
from gputop.topology.model.machine import CacheKind, Gpu, GpuCache, MemoryBank
from gputop.topology.recorded.load import load
from tests.support.app import demo_report

MIB = 1024**2
OF_ONE = "L2 4.0 MiB (of one XCD; older kernels add up all), Infinity Cache (L3) 256 MiB"


def facts(gpu: Gpu) -> dict[str, str]:
    return dict(chip_facts(gpu))


def test_a_part_of_a_real_mi308x() -> None:
    gpu = load(["tests/recordings/kfd/mi308x-8-cpx.tar.gz"]).snapshot.machine.gpus[0]
    assert facts(gpu) == {
        "Compute": "20 compute units in 1 XCD",
        "Caches": "L2 4.0 MiB, Infinity Cache (L3) 64.0 MiB",
        "Memory banks": "48.0 GiB, 8192 bit, 1300 MHz, all of it in the CPU's reach",
    }


@pytest.mark.parametrize(
    ("demo", "caches"),
    [
        ("mi250x-8", "L2 8.0 MiB"),
        (
            "mi300x-8",
            "L2 4.0 MiB (of one XCD; older kernels add up all), Infinity Cache (L3) 256 MiB",
        ),
        (
            "mi355x-8",
            "L2 4.0 MiB (of one XCD; older kernels add up all), Infinity Cache (L3) 256 MiB",
        ),
    ],
)
def test_the_caches_of_the_demos(demo: str, caches: str) -> None:
    assert facts(demo_report(demo).snapshot.machine.gpus[0])["Caches"] == caches


def test_an_l2_of_several_xcds_says_whose_it_is() -> None:
    cache = GpuCache(level=2, kind=CacheKind.BOTH, size_bytes=4 * MIB, count=2)
    gpu = Gpu(address="a", vendor="amd", core_count=304, xcd_count=8, caches=(cache,))
    assert facts(gpu) == {
        "Compute": "304 compute units in 8 XCDs",
        "Caches": "L2 2 x 4.0 MiB (data and instruction) (of one XCD; older kernels add up all)",
    }


def test_unknown_values_are_left_out() -> None:
    assert facts(Gpu(address="a", vendor="amd")) == {}
    bank = MemoryBank(kind="private", size_bytes=16 * 1024 * MIB)
    gpu = Gpu(address="a", vendor="amd", memory_banks=(bank,))
    assert facts(gpu) == {"Memory banks": "16.0 GiB, not all in the CPU's reach"}
