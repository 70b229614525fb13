"""What no device can have is a gap, whoever says it: drivers and files pass one door."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.live.fleet_node import read_whole
from gputop.topology.model.snapshot import NodeSnapshot, decode, encode
from gputop.topology.recorded.load import load
from gputop.topology.sources.believed import IMPOSSIBLE, believed
from tests.support.places import RECORDINGS
from tests.support.rule_cases import base, diagnosed, edited

BOARD, OAM = "demo hgx-h100-8", "demo mi300x-8"
GPU, NOW = "machine.gpus[1]", "readings.gpus[1]"
ODD: list[tuple[str, str, tuple[Any, ...]]] = [
    (BOARD, f"{GPU}.memory_bytes", (0, -1, 2**50)),
    (BOARD, f"{GPU}.bar1_bytes", (0, -1, 2**50)),
    (BOARD, f"{GPU}.pcie_width_max", (0, 3, 6, 17, 64, -16)),
    (BOARD, f"{GPU}.pcie_gen_max", (0, 16, -1)),
    (BOARD, f"{GPU}.power_limit_watts", (0, -700, 10**6)),
    (BOARD, f"{GPU}.clock_sm_max_mhz", (0, -1, 10**6)),
    (BOARD, f"{GPU}.uuid", ("GPU-00000000-0000-4000-8000-000000000000-1", "GPU-", "1", "x" * 300)),
    (BOARD, f"{GPU}.nvlinks[4].raw_gbs", (0, 1e15, -26.5)),
    (BOARD, f"{NOW}.pcie_width", (0, 3, 6, -1)),
    (BOARD, f"{NOW}.pcie_gen", (0, 99)),
    (BOARD, f"{NOW}.memory_used_bytes", (-1, 2**60)),
    (BOARD, f"{NOW}.utilization_percent", (-1, 101, 1e15)),
    (BOARD, f"{NOW}.temperature_c", (-100, 500)),
    (BOARD, f"{NOW}.pcie_replays", (-1, 2**60)),
    (BOARD, f"{NOW}.ecc.uncorrected_volatile", (-1, 2**62)),
    (BOARD, "machine.pci[kind=gpu].link_width_max", (3, 6, -8)),
    (BOARD, "machine.pci[kind=gpu].link_speed_max_gts", (-1, 1e15)),
    (OAM, f"{GPU}.memory_bytes", (0, -1, 2**50)),
    (OAM, f"{GPU}.uuid", ("GPU-x", "")),
    (OAM, f"{GPU}.xgmi[2].raw_gbs", (0, 1e15)),
    (OAM, "machine.pairs[3].hops", (-1, 65)),
]
"""A demo, a field, and what it cannot be. Rates that move and free memory prove nothing."""
FREE: list[tuple[str, tuple[Any, ...]]] = [
    (f"{NOW}.power_watts", (-1, 1e15)),
    (f"{NOW}.nvlink_tx_bytes_per_second", (-1, 1e15)),
    (f"{NOW}.memory_free_bytes", (-1, 2**60)),
]


def with_value(name: str, path: str, value: Any) -> NodeSnapshot:
    return edited(base(name), [{"path": path, "value": value}])


@pytest.mark.parametrize(("name", "path", "values"), ODD, ids=[f"{n}-{p}" for n, p, _ in ODD])
def test_what_cannot_be_is_a_gap_and_no_health(
    name: str, path: str, values: tuple[Any, ...]
) -> None:
    field = path.rpartition(".")[2]
    for value in reversed(values):
        found = believed(with_value(name, path, value))
        gaps = [gap for gap in _gaps(found) if gap["why"].startswith(IMPOSSIBLE)]
        assert {gap["field"] for gap in gaps} == {field}
    # Whatever it was, the gap is the same.
    diagnosis = diagnosed(found)
    assert diagnosis.verdict != "healthy"
    assert any(lack.why.startswith(IMPOSSIBLE) for lack in diagnosis.lacking)


@pytest.mark.parametrize(("path", "values"), FREE)
def test_what_proves_nothing_is_a_gap_all_the_same(path: str, values: tuple[Any, ...]) -> None:
    for value in values:
        found = believed(with_value(BOARD, path, value))
        assert [gap["field"] for gap in _gaps(found) if IMPOSSIBLE in gap["why"]]


@pytest.mark.parametrize("name", [BOARD, OAM, "hgx-h200-4gpu-live", "demo gb200-nvl72-tray"])
def test_sound_nodes_stay_as_they_are(name: str) -> None:
    assert believed(base(name)) is base(name)


def test_files_and_drivers_pass_the_same_door(tmp_path: Path) -> None:
    odd = with_value(BOARD, f"{GPU}.memory_bytes", -1)
    (tmp_path / "node.json").write_bytes(encode(odd))
    (tmp_path / "check.json").write_bytes(
        msgspec.json.encode({"schema": "gputop.check/1", "fleet": {"snapshot": odd}})
    )
    assert decode(encode(odd)).machine.gpus[1].memory_bytes == -1
    read = [
        load([str(tmp_path / "node.json")]).snapshot,
        load([str(tmp_path / "check.json")]).snapshot,
        read_whole(str(tmp_path), "check.json").snapshot,
    ]
    assert [one and one.machine.gpus[1].memory_bytes for one in read] == [None] * 3


def test_a_gpu_of_a_text_has_the_form_of_a_uuid(tmp_path: Path) -> None:
    text = (RECORDINGS / "nvidia-public/t4.xml").read_text()
    (uuid,) = re.findall("<uuid>(GPU-.*?)</uuid>", text)[:1]
    for tail, read in (("", uuid), ("-1", None)):
        (tmp_path / "q.xml").write_text(text.replace(uuid, uuid + tail))
        assert load([str(tmp_path / "q.xml")]).snapshot.machine.gpus[0].uuid == read


def _gaps(value: Any) -> list[dict[str, str]]:
    plain = msgspec.to_builtins(value) if isinstance(value, NodeSnapshot) else value
    if isinstance(plain, dict):
        here = list(plain.get("gaps", ()))
        return here + [gap for key, part in plain.items() if key != "gaps" for gap in _gaps(part)]
    return (
        [gap for part in plain for gap in _gaps(part)] if isinstance(plain, (list, tuple)) else []
    )
