"""`dcgmi nvlink --link-status`, in the form that DCGM's own code prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.model.format import FormatError
from gputop.topology.model.part import PartialNode
from gputop.topology.recorded.formats.nvidia.dcgmi_nvlink import FORMAT

HEAD = "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\n"
KEY = "Key: Up=U, Down=D, Disabled=X, Not Supported=_\n"


def parsed(gpus: dict[int, str], switches: dict[int, str] | None = None) -> PartialNode:
    text = f"{HEAD}GPUs:\n"
    text += "".join(f"    gpuId {number}:\n        {row}\n" for number, row in gpus.items())
    rows = (switches or {}).items()
    text += "NvSwitches:\n" * bool(switches)
    text += "".join(f"    physicalId {number}:\n        {row}\n" for number, row in rows)
    data = f"{text}{KEY}".encode()
    assert FORMAT.recognises(data, Path("x"))
    return FORMAT.parse(data, Path("x"))


def test_each_letter_is_a_link() -> None:
    part = parsed({0: "U U D X _ _", 1: "U U U U _ _"})
    first, second = part.gpus
    assert [(link.link, link.active) for link in first.nvlinks] == [
        (0, True), (1, True), (2, False), (3, None),
    ]  # fmt: skip
    assert [link.active for link in second.nvlinks] == [True] * 4
    assert not part.problems


def test_links_of_a_switch_that_are_down_are_told() -> None:
    part = parsed({0: "U U"}, {8: "X X U U D D", 9: "U U U U U U"})
    assert [problem.text for problem in part.problems] == ["NVSwitch 8: 2 of its NVLinks are down"]


def test_a_text_without_a_gpu_is_none() -> None:
    with pytest.raises(FormatError):
        FORMAT.parse(b"NvSwitches:\n    physicalId 8:\n        U U\n", Path("x"))
