"""No word of NVIDIA's on a node of AMD's GPUs: every screen, its help, and what the probes say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.app import GpuTop
from gputop.library_words import words_for
from gputop.topology.feeds import DemoFeed
from gputop.topology.flags.account import account
from gputop.topology.flags.catalogue import catalogue
from gputop.topology.flags.section import drawn
from gputop.topology.flags.study import Study
from tests.app_support import SIZES, demo_report, give, picture, press

WRONG = re.compile(
    r"\b(?:CUDA|NVLinks?|NVSwitch(?:es)?|NCCL|cuBLAS(?:Lt)?|NVML|cuda|nvidia-smi topo)\b(?![_=.])"
)

async def everything(pilot: Pilot[Any]) -> list[str]:
    """All lines of all screens, with their help and what stands behind w."""
    seen: list[str] = []
    for number in range(1, 9):
        await press(pilot, str(number))
        for keys in ((), ("w",), ("escape", "question_mark"), ("escape", "m"), ("m",), ("m",)):
            await press(pilot, *keys)
            seen += picture(pilot).splitlines()
        await press(pilot, "escape")
    return seen


@pytest.mark.parametrize("demo", ["mi300x-8", "mi250x-8"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_screens_of_a_node_of_amds(size: tuple[int, int], demo: str) -> None:
    async with GpuTop().run_test(size=size) as pilot:
        await give(pilot, demo_report(demo))
        seen = await everything(pilot)
    assert any("run RCCL" in line for line in seen)
    assert any("RCCL path" in line for line in seen)
    wrong = [line.strip() for line in seen if WRONG.search(line)]
    assert not wrong, wrong[:5]


async def test_screens_of_an_h100_node_keep_their_words() -> None:
    async with GpuTop().run_test(size=SIZES[1]) as pilot:
        await give(pilot, demo_report("hgx-h100-8"))
        await press(pilot, "3")
        assert "run NCCL" in picture(pilot)
        assert "NCCL path" in picture(pilot)


def test_advice_on_a_flag_names_the_level_that_rccl_has() -> None:
    study = Study(DemoFeed("mi300x-8").at(0))
    flag = catalogue().flag("NCCL_P2P_DISABLE")
    assert flag is not None
    text = " ".join(drawn(account(flag, study), 400))
    assert "NCCL_P2P_LEVEL=XGMI keeps xGMI" in text
    assert "NCCL_P2P_LEVEL=NVL" not in text
    told = Study(DemoFeed("hgx-h100-8").at(0))
    assert "NCCL_P2P_LEVEL=NVL keeps NVLink" in " ".join(drawn(account(flag, told), 400))


def test_what_a_user_wrote_stays() -> None:
    study = Study(DemoFeed("mi300x-8").at(0), values={"NCCL_P2P_LEVEL": "NVL"})
    flag = catalogue().flag("NCCL_P2P_LEVEL")
    assert flag is not None
    text = " ".join(drawn(account(flag, study), 400))
    assert "NCCL_P2P_LEVEL=NVL. It is ignored: RCCL calls this level XGMI" in text


def test_variables_keep_their_names() -> None:
    gpus = DemoFeed("mi300x-8").at(0).machine.gpus
    text = "NCCL or RCCL reads NCCL_DEBUG, NCCL's log, NVLink, CUDA, CUDA_VISIBLE_DEVICES, NCCL"
    assert words_for(gpus, text) == (
        "RCCL reads NCCL_DEBUG, RCCL's log, xGMI, HIP, CUDA_VISIBLE_DEVICES, RCCL"
    )
    assert words_for((), text) == text
    assert words_for(DemoFeed("hgx-h100-8").at(0).machine.gpus, text) == text
