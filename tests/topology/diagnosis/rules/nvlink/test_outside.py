"""GPUs outside an island: by a fault, or by the design of cards, bridges and partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.topology.model.finding import Finding
from gputop.topology.recorded.load import load
from tests.support.rule_cases import diagnosed

LIST = "GPU {}: {} (UUID: GPU-0000000{}-0000-0000-0000-000000000000)\n"


def matrix(links: dict[int, str], count: int) -> str:
    """A matrix: GPUs with the same letter are joined; the others have PCIe alone."""
    head = "\t" + "\t".join(f"GPU{number}" for number in range(count))
    rows = [head + "\tCPU Affinity\tNUMA Affinity"]
    for row in range(count):
        cells = [
            " X "
            if row == column
            else "NV4"
            if links.get(row) is not None and links.get(row) == links.get(column)
            else "SYS"
            for column in range(count)
        ]
        rows.append("\t".join((f"GPU{row}", *cells, "0-31", "0")))
    return "\n".join(rows) + "\n"


def board(joined: int, count: int) -> str:
    return matrix(dict.fromkeys(range(joined), "a"), count)


def outside(folder: Path, text: str) -> list[Finding]:
    file = folder / "topo.txt"
    file.write_text(text)
    found = diagnosed(load([str(file)]).snapshot).findings
    return [finding for finding in found if finding.id == "gpu-outside-island"]


@pytest.mark.parametrize(("joined", "count"), [(3, 4), (7, 8), (6, 8), (15, 16)])
def test_a_board_with_some_gpus_off_is_broken(tmp_path: Path, joined: int, count: int) -> None:
    (one,) = outside(tmp_path, board(joined, count))
    assert one.severity == "broken"
    assert one.devices == tuple(sorted(f"topo:GPU{number}" for number in range(joined, count)))


@pytest.mark.parametrize(
    "text",
    [
        board(8, 8),
        board(4, 5),  # a workstation of four and a card for the screen
        board(2, 3),  # two cards with a bridge, and one without
        board(2, 8),
        board(4, 8),
        board(8, 9),  # a board of eight beside a card
        board(3, 3),  # a container has three of them
        board(7, 7),
        board(7, 9),
        matrix({0: "a", 1: "a", 2: "b", 3: "b"}, 4),
        board(0, 8),
    ],
)
def test_islands_by_design_are_no_fault(tmp_path: Path, text: str) -> None:
    assert outside(tmp_path, text) == []


@pytest.mark.parametrize(
    ("last", "count"),
    [("NVIDIA A100-SXM4-80GB", 1), ("NVIDIA L40S", 0), ("NVIDIA A100-SXM4-40GB", 0)],
)
def test_a_card_of_another_model_is_no_sister(tmp_path: Path, last: str, count: int) -> None:
    names = ["NVIDIA A100-SXM4-80GB"] * 7 + [last]
    listed = "".join(LIST.format(number, name, number) for number, name in enumerate(names))
    assert len(outside(tmp_path, f"{board(7, 8)}\n{listed}")) == count


def test_a_gpu_in_mig_mode_has_its_links_off(tmp_path: Path) -> None:
    modes = "index, name, mig.mode.current\n" + "".join(
        f"{number}, NVIDIA A100-SXM4-80GB, {'Enabled' if number == 7 else 'Disabled'}\n"
        for number in range(8)
    )
    assert outside(tmp_path, f"{board(7, 8)}\n{modes}") == []
    assert outside(tmp_path, f"{board(7, 8)}\n{modes.replace('Enabled', 'Disabled')}") != []
