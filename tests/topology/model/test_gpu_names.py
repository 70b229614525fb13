"""One name for a GPU on every screen: by the library's index, else by its place in PCI order."""

from __future__ import annotations

from functools import cache

import pytest

from gputop.app import GpuTop
from gputop.measuring.selection import SelectionError, select
from gputop.topology.model.machine import Gpu
from gputop.topology.model.part import PartialNode
from gputop.topology.node import Node
from gputop.topology.recorded.load import load
from gputop.topology.report import Report
from gputop.topology.sources.collect import merge
from gputop.topology.wiring.gpu_names import gpu_label
from tests.support.app import give, picture, press
from tests.support.mixed_made import mixed_report

AMD = ["0000:03:00.0", "0000:04:00.0"]
NVIDIA = ["0000:01:00.0", "0000:02:00.0"]


def names(*gpus: Gpu) -> dict[str, str]:
    part = PartialNode(gpus=gpus)
    snapshot = merge((part,), taken_at=1.0, source=("test",), gputop="0")
    return {gpu.address: gpu_label(gpu) for gpu in snapshot.machine.gpus}


def amd(place: int, index: int | None = None) -> Gpu:
    return Gpu(address=AMD[place], vendor="amd", index=index)


def nvidia(place: int, index: int | None = None) -> Gpu:
    return Gpu(address=NVIDIA[place], vendor="nvidia", index=index)


def test_without_a_library_the_pci_order_counts() -> None:
    assert names(amd(1), amd(0)) == {AMD[0]: "GPU0", AMD[1]: "GPU1"}


def test_the_librarys_numbers_go_before_the_order() -> None:
    assert names(amd(0, 1), amd(1, 0)) == {AMD[0]: "GPU1", AMD[1]: "GPU0"}


def test_one_that_the_library_leaves_out_has_no_number() -> None:
    assert names(amd(0), amd(1, 0)) == {AMD[0]: AMD[0], AMD[1]: "GPU0"}


@pytest.mark.parametrize("index", [None, 0])
def test_amds_gpus_have_another_word_beside_nvidias(index: int | None) -> None:
    found = names(nvidia(0, 0), amd(0, index))
    assert found == {NVIDIA[0]: "GPU0", AMD[0]: "AMD0"}


def test_a_bare_number_is_the_librarys_before_it_is_a_place() -> None:
    part = PartialNode(gpus=(nvidia(0, 0), nvidia(1, 1), amd(0), amd(1)))
    machine = merge((part,), taken_at=1.0, source=("test",), gputop="0").machine
    assert select("0", machine) == (NVIDIA[0],)
    with pytest.raises(SelectionError, match="no GPU amdsmi:0"):
        select("amdsmi:0", machine)


@cache
def kfd() -> Report:
    return Report(Node(load(["tests/recordings/kfd/mi308x-8-cpx.tar.gz"]).snapshot).decide())


def test_a_place_selects_where_no_library_counts() -> None:
    machine = kfd().snapshot.machine
    assert select("5", machine) == ("0000:80:00.1",)
    with pytest.raises(SelectionError, match=r"5 = 0000:80:00\.1"):
        select("32", machine)


async def test_parts_known_by_kfd_alone_have_one_name_on_all_screens() -> None:
    async with GpuTop().run_test(size=(160, 50)) as pilot:
        await give(pilot, kfd())
        await press(pilot, "down")
        node = picture(pilot)
        assert "›  1  0a:00.1" in node
        assert "GPU 1 by PCI address" in node
        assert "›GPU1" in node
        await press(pilot, "2")
        assert "GPU1 · 0000:0a:00.1 · part 1 of MI308X 0a:00.0" in picture(pilot)
        for keys in (("3",), ("m", "m", "m")):  # the second measure has no row for NICs
            await press(pilot, *keys)
            pairs = picture(pilot)
            assert "GPU1 → GPU0   P2P inside a GPU package" in pairs
            assert "›GPU1" in pairs
            assert " GPU5 " in pairs


async def test_a_node_of_packages_in_parts_counts_both() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, kfd())
        assert "8 × MI308X in 32 parts, CPX" in picture(pilot)


async def test_a_mixed_node_says_between_whose_gpus() -> None:
    async with GpuTop().run_test(size=(80, 24)) as pilot:
        await give(pilot, mixed_report())
        assert "by Ring Simple on the AMD GPUs" in picture(pilot)
